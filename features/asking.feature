Feature: Asking
  As a developer
  I want to send a message and be given the answer to it
  So that I need no handlers, no events and no waiting of my own

  Background:
    Given a runtime is initialized

  Rule: One call is enough

    Scenario: The first question
      When I ask "Hello"
      Then the answer should be "Hello from mock!", completed
      And the conversation should be:
        | user      | Hello            |
        | assistant | Hello from mock! |

    Scenario: The conversation goes on
      Given I have asked "Hello"
      When I ask "Still there?" in the same session
      Then the answer should be "Hello from mock!", completed
      And the conversation should have 4 messages

    Scenario: What is asked for does not exist
      When I ask "Hello" in session "nowhere"
      Then it should fail with session not found error

  Rule: The answer is that of my own message

    Scenario: Other turns end meanwhile
      When 20 threads ask, each in its own words, in 2 sessions
      Then each of them should have the answer to its own words

    Scenario: I hear the events of my own turn
      Given I have asked "Hello"
      When I ask "Again" in the same session, and listen
      Then I should have heard the events of that turn alone

  Rule: However the turn ends, I am told

    Scenario: The model fails
      Given scenario "error" is set
      When I ask "Hello"
      Then the answer should be "", failed
      And it should say why: "Rate limit exceeded"

    Scenario: Somebody interrupts it
      Given scenario "endless" is set
      When I ask "Hello", and the agent is interrupted
      Then the answer should be "Once upon", interrupted

    Scenario: It takes too long
      Given scenario "endless" is set
      When I ask "Hello" and wait for no longer than 0.2 seconds
      Then I should be told that the turn has not ended, and which one it is
      And the agent should be in state "responding"

    Scenario: I come back for an answer
      Given I have asked "Hello"
      When I close the runtime and open it again
      And I wait for the turn of before
      Then the answer should be "Hello from mock!", completed
