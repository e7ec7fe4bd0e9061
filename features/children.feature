Feature: Child sessions
  As a developer
  I want an agent to call another agent as it calls a tool
  So that work is shared out, and I can see, stop and pay for all of it

  Background:
    Given a runtime whose agents call the agent "researcher"

  Rule: A call of an agent is a session of its own

    Scenario: The agent that is called answers the call
      When I ask the agent, which calls "researcher", which says "42"
      Then the call should be answered with "42"
      And the researcher should have a session of its own, whose parent is mine

    Scenario: The agent that is called fails
      When I ask the agent, which calls "researcher", which fails
      Then the call should be answered with an error that says "failed"

    Scenario: A detached agent answers with a message
      When I ask the agent, which calls "assistant", which says "later"
      Then the call should be answered with the id of its session
      And my session should be sent a message that ends with "later"

  Rule: What was cut short is never called completed

    Scenario: The budget of the agent that is called is used up
      Given "researcher" has a budget of 1 step
      When I ask the agent, which calls "researcher", which works on and on
      Then the call should be answered with an error that says "was ended by a limit (budget_exceeded)"

    Scenario: The agent is interrupted while the other one is at work
      When I ask the agent, which calls "researcher", which takes long
      And I interrupt the agent
      Then the call should be answered with an error that says "was interrupted"
      And the researcher's turn should have ended before mine
      And no agent should be at work

    Scenario: A detached agent is spared by the interrupt
      When I ask the agent, which calls "assistant" and "researcher", which take long
      And I interrupt the agent
      Then the assistant should be at work

  Rule: Agents wait for people together, and at no cost

    Scenario: A call in the session of the agent that is called is approved
      When I ask the agent, which calls "researcher", which wants to send a mail
      Then both sessions should wait for me
      And I should be asked about the mail alone
      When I approve it
      Then the call should be answered with "sent"

    Scenario: The runtime is restarted while they wait
      When I ask the agent, which calls "researcher", which wants to send a mail
      And the runtime is closed and opened again
      And I approve it
      Then the call should be answered with "sent"

  Rule: What others have used is counted, and has limits

    Scenario: What the agent that is called has used counts for the one that calls
      When I ask the agent, which calls "researcher", which says "42"
      Then 3 answers should be counted for my session, 1 of them of others

    Scenario: Agents call each other two deep
      When I ask the agent, which calls "researcher", three of them below each other
      Then the last call should be answered with an error that says "2 deep at most"

    Scenario: A turn calls eight agents
      When I ask the agent, which calls "researcher" nine times
      Then the last call should be answered with an error that says "8 agents at most"

  Rule: A crash loses nothing and does nothing twice

    Scenario: The process ends while the agent that is called is at work
      When I ask the agent, which calls "researcher", which takes long
      And the process crashes
      Then the call should be answered with an error that says "it is not known whether it took effect"
      And no agent should be at work
      And 2 answers should be counted for my session, 1 of them of others

  Rule: A branch of my session has branches of the sessions that its calls wait for

    Scenario: Deciding otherwise below a branch
      When I ask the agent, which calls "researcher", which wants to send a mail
      And I branch off from my session
      Then I should be asked about the mail below my session, and below the branch
      When I approve it below my session, and reject it below the branch
      Then the call should be answered in both sessions
      And the mail should have been sent below my session, and rejected below the branch

    Scenario: The agent that is called is at work when I branch off
      When I ask the agent, which calls "researcher", which takes long
      And I branch off from my session
      Then the researcher's turn should be under way below my session, and interrupted below the branch
      And the call should be answered in the branch with an error that says "interrupted (branched)"

    Scenario: The process ends right after I branched off
      When I ask the agent, which calls "researcher", which wants to send a mail
      And I branch off from my session
      And the process crashes
      Then I should be asked about the mail below my session, and below the branch
