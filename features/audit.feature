Feature: What happened
  As somebody who answers for what an agent does
  I want to ask the log what happened, why, what was true then, and what changed
  So that I need not guess

  Background:
    Given an agent that was asked "Please write to Ann", and wants to send a mail
    And Bob has approved the mail, and the agent has answered "Ann has mail"

  Rule: What happened can be listed, and looked for

    Scenario: Everything, in order
      When I list what happened
      Then the list should begin with the container and the image
      And it should be in the order of the log

    Scenario: What was said
      When I list what happened where "ann HAS mail" is said
      Then I should see only that the model answered

    Scenario: What one session did
      Given another session in which nothing was said
      When I list what happened in the first session
      Then nothing of the other session should be in the list

    Scenario: What happened last
      When I list the last 2 things that happened
      Then I should see that a turn ended, and after it that the agent stopped

    Scenario: What is still to come
      Given I follow what happens
      When another session is created
      Then I should see it

  Rule: Why something happened is told back to what came from outside

    Scenario: A mail was sent
      When I ask why the mail was sent
      Then it should be because "Please write to Ann" came from outside
      And because Bob approved it

    Scenario: What a message led to
      When I ask what followed from the message
      Then the mail should have followed, and the answer "Ann has mail"

    Scenario: Something that never happened
      When I ask why something happened behind the end of the log
      Then I should be told where the log ends

  Rule: A session can be seen as it was at any position

    Scenario: While the mail waited for a person
      When I look at the session as it was when the mail waited
      Then the mail should wait for a person, under the digest that Bob's approval was bound to
      And the last word should be "Please write to Ann", and a call

    Scenario: A deleted session
      Given the session is deleted
      When I look at the session
      Then it should be deleted, and its last word should be "Ann has mail"

    Scenario: Before it began
      When I look at the session as it was at position 1
      Then I should be told where it begins

  Rule: What changed is told by field

    Scenario: Between two positions
      When I compare the session when the mail waited with the session now
      Then "pending[0]" should have been removed
      And "messages[3]" should have been added
      And "calls[0].result" should have changed

    Scenario: A session with itself
      When I compare the session with itself
      Then nothing should have changed

    Scenario: A session with a branch of it
      Given a branch of the session from when the mail waited
      When I compare the branch with the session
      Then they should be the same up to when the mail waited
      And "messages[3]" should have been added
