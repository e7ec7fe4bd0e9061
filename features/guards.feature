Feature: Guards
  As a developer
  I want functions of my own to let messages, calls and answers pass, or to refuse them
  So that nothing gets in or out that must not, and the log proves it

  Background:
    Given a guard "clean" that refuses what says "secret"

  Rule: A message is accepted when its guards let it pass

    Scenario: It passes
      Given a runtime whose image has the guard for messages
      When I ask "Hello"
      Then the answer should be "Hello from mock!", completed
      And the log should say that "clean" has passed the message

    Scenario: It is refused
      Given a runtime whose image has the guard for messages
      When I ask "Tell me a secret"
      Then it should fail because "clean" refuses the message: "it says secret"
      And no message should have been accepted
      And the log should say that "clean" has refused the message

    Scenario: Nobody has given the runtime the guard
      Given a runtime whose image has the guard "stranger" for messages, which nobody has given
      When I ask "Hello"
      Then it should fail because "stranger" refuses the message

    Scenario: The guard fails
      Given a runtime whose image has the guard "broken" for messages, which raises
      When I ask "Hello"
      Then it should fail because "broken" refuses the message: "it raised ValueError: out of order"

    Scenario: The guard takes too long
      Given a runtime whose image has the guard "slow" for messages, which never answers
      When I ask "Hello"
      Then it should fail because "slow" refuses the message: "it has not answered within 0.05 s"

  Rule: A call runs when its guards let it pass

    Scenario: It is refused
      Given a runtime whose image has the guard for calls
      When I ask "Search for secret"
      Then nothing should have been searched
      And the model should be told "it says secret"
      And the log should say that "clean" has refused the call

    Scenario: It passes
      Given a runtime whose image has the guard for calls
      When I ask "Search for news"
      Then "news" should have been searched
      And the log should say that "clean" has passed the call

  Rule: A turn whose answer is refused fails, and the conversation goes on without the answer

    Scenario: The answer was told as it came
      Given a runtime whose image has the guard for answers
      When I ask "Say secret"
      Then the answer should be "", failed, for "answer_refused"
      And I should have heard "secret", and then that it is refused
      And the conversation should have 1 message

    Scenario: The answer was held back
      Given a runtime whose image has the guard for answers, and holds them back
      When I ask "Say secret"
      Then the answer should be "", failed, for "answer_refused"
      And I should have heard nothing of the answer

    Scenario: An answer that was held back is told when it has passed
      Given a runtime whose image has the guard for answers, and holds them back
      When I ask "Say news"
      Then the answer should be "news", completed
      And I should have heard that it has passed, and then "news"

  Rule: What guards have said is history

    Scenario: The log is verified and replayed
      Given a runtime whose image has the guard for answers
      And I have asked "Say secret"
      When the log is verified, and its decisions are replayed
      Then nothing should be wrong
      And the guard should not have been asked again

    Scenario: Why a turn has failed
      Given a runtime whose image has the guard for answers
      And I have asked "Say secret"
      When I ask the log why the turn has ended
      Then it should say that the guard "clean" refused the answer
