Feature: Restart
  As a developer
  I want everything to be there again after a restart
  So that a conversation outlives the process it runs in

  Background:
    Given a runtime is initialized
    And a container "default" exists
    And an image "chat" exists
    And a session "session-1" exists in container "default" with image "chat"
    And an agent is running from session "session-1"

  Rule: What was there is there

    Scenario: The lists are what they were
      Given a container "other" exists
      And a session "session-2" exists in container "other" with image "chat"
      And I have looked at everything
      When I close the runtime and open it again
      Then everything should be what it was

    Scenario: The conversation is what it was
      Given I send message "Hello" to the agent
      And its turn is over
      And I have looked at the conversation
      When I close the runtime and open it again
      Then the conversation should be what it was

    Scenario: No agent is live until its session is run
      When I close the runtime and open it again
      Then no agent should be running
      And the agent of before should not be known

    Scenario: A deleted session stays deleted, and its ID is spent
      Given I delete the session
      When I close the runtime and open it again
      Then the session should be in no list
      And it should not run, nor be read, nor be deleted again
      And its ID should not be given again

  Rule: A session runs on where it stopped

    Scenario: Its agent knows the conversation
      Given mock driver scenario is "attentive"
      And I send message "My name is Ada" to the agent
      And its turn is over
      When I close the runtime and open it again
      And I run the session
      And I send message "What is my name?" to the agent
      And its turn is over
      Then the conversation should be:
        | user      | My name is Ada                                           |
        | assistant | You said: My name is Ada (answered: 0)                   |
        | user      | What is my name?                                         |
        | assistant | You said: My name is Ada, What is my name? (answered: 1) |
      And the events of the session should be numbered from 1, without holes

    Scenario: What waited is taken up
      Given the agent is processing a message
      And I send message "One" to the agent
      And I send message "Two" to the agent
      When I close the runtime and open it again
      And mock driver scenario is "attentive"
      And I run the session
      Then 3 turns should be completed, in the order of their questions
      And the conversation should be:
        | user      | Tell me a story                                   |
        | assistant | Once upon                                         |
        | user      | One                                               |
        | assistant | You said: Tell me a story, One (answered: 1)      |
        | user      | Two                                               |
        | assistant | You said: Tell me a story, One, Two (answered: 2) |
      And the events of the session should be numbered from 1, without holes

  Rule: A turn that a shutdown or a crash cut short is closed, and what it said is kept

    Scenario: The runtime is closed in the middle of an answer
      Given the agent is processing a message
      When I close the runtime and open it again
      Then I should have heard of its turn:
        | user_message        | Tell me a story        |
        | turn_started        |                        |
        | agent_state_changed | idle to thinking       |
        | message_start       |                        |
        | agent_state_changed | thinking to responding |
        | text_delta          | "Once upon"            |
        | interrupted         | shutdown               |
        | assistant_message   | Once upon              |
        | agent_state_changed | responding to idle     |
        | turn_completed      | interrupted            |
      And the last answer should be "Once upon", in part, because of "interrupted"

    Scenario: Closing twice is closing once
      Given the agent is processing a message
      When I close the runtime
      And I close the runtime
      Then it should complete without error
      And its turn should be completed once, as interrupted

    Scenario: The process crashes in the middle of an answer
      Given the agent is processing a message
      When the process crashes and the runtime is opened again
      Then the last answer should be "Once upon", in part, because of "interrupted"
      And no agent should be running

    Scenario: What a crash cut short is closed once
      Given the agent is processing a message
      And the process crashes and the runtime is opened again
      And I have looked at the conversation
      When I close the runtime and open it again
      Then the conversation should be what it was

    Scenario: A crash leaves room for exactly one end of the turn
      Given the agent is processing a message
      When the process crashes and the runtime is opened again
      And I run the session
      Then the end of the turn should have taken exactly these numbers:
        | interrupted         |
        | assistant_message   |
        | agent_state_changed |
        | turn_completed      |
        | agent_state_changed |
        | agent_stopped       |

    Scenario: After a crash the next message is answered
      Given the agent is processing a message
      And the process crashes and the runtime is opened again
      And mock driver scenario is "attentive"
      When I run the session
      And I send message "Go on" to the agent
      And its turn is over
      Then the conversation should be:
        | user      | Tell me a story                                |
        | assistant | Once upon                                      |
        | user      | Go on                                          |
        | assistant | You said: Tell me a story, Go on (answered: 1) |

    Scenario: What waited when the process crashed is taken up
      Given the agent is processing a message
      And I send message "One" to the agent
      And the process crashes and the runtime is opened again
      And mock driver scenario is "attentive"
      When I run the session
      And 1 turn is over
      Then the conversation should be:
        | user      | Tell me a story                              |
        | assistant | Once upon                                    |
        | user      | One                                          |
        | assistant | You said: Tell me a story, One (answered: 1) |
