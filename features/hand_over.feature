Feature: Hand-over
  As somebody who talks with an agent
  I want another agent to go on with the same conversation
  So that I have to say nothing twice, and lose no place in it

  Background:
    Given the images "triage" and "billing", each with a model, a prompt and a tool of its own
    And a session on "triage" in which "Hello" was answered

  Rule: The session stays the same, and its agent becomes another

    Scenario: Between two turns
      When I hand the session over to "billing"
      And I say "My bill"
      Then "billing" should have answered "My bill", with its own model, prompt and tool
      And the session should say that it is on "billing"
      And whoever follows the session should have heard of one change, under the next cursor

    Scenario: The way back is the same
      When I hand the session over to "billing"
      And I say "My bill"
      And I hand the session over to "triage"
      And I say "Thanks"
      Then "triage" should have answered "Thanks", with its own model, prompt and tool
      And the model should have been given "Hello", "Well", "My bill", "Well", "Thanks"

    Scenario: Nobody is there to answer
      Given the agent is destroyed
      When I hand the session over to "billing"
      And I say "My bill"
      Then "billing" should have answered "My bill", with its own model, prompt and tool

    Scenario: To where it is already
      When I hand the session over to "triage"
      Then whoever follows the session should have heard of no change

    Scenario: An image that is not there
      When I hand the session over to "nobody"
      Then I should be told that there is no image "nobody"
      And the session should say that it is on "triage"

  Rule: The other agent is given as much of the conversation as I say

    Scenario Outline: How much
      Given "How are you?" was answered
      When I hand the session over to "billing" with <history> of its history
      And I say "My bill"
      Then the model should have been given <messages>

      Examples:
        | history | messages                                             |
        | all     | "Hello", "Well", "How are you?", "Well", "My bill"   |
        | none    | "My bill"                                            |
        | summary | the summary, "My bill"                               |

    Scenario: What one was not given, the next may be
      When I hand the session over to "billing" with none of its history
      And I say "My bill"
      And I hand the session over to "triage" with all of its history
      And I say "Thanks"
      Then the model should have been given "Hello", "Well", "My bill", "Well", "Thanks"

    Scenario: A new beginning with the same agent
      When I hand the session over to "triage" with none of its history
      And I say "Again"
      Then the model should have been given "Again"

  Rule: A turn ends with the agent that it began with

    Scenario: While the agent answers
      Given the model thinks about "Why?"
      And "My bill" waits
      When I hand the session over to "billing"
      Then the session should say that it is on "triage"
      When the model has thought
      Then "billing" should have answered "My bill", with its own model, prompt and tool

    Scenario: The last word holds
      Given the model thinks about "Why?"
      When I hand the session over to "billing"
      And I hand the session over to "triage" with none of its history
      And the model has thought
      And I say "Again"
      Then "triage" should have answered "Again", with its own model, prompt and tool
      And the model should have been given "Again"

    Scenario: A call that waits for a person is of the agent that asked
      Given the agent waits for leave to use its tool
      When I hand the session over to "billing"
      And I give leave
      Then "triage" should have been told the result
      And the session should say that it is on "billing"

    Scenario: The agent hands over itself
      When I say "Connect me with billing"
      Then "triage" should have been told that "billing" takes over
      And the session should say that it is on "billing"
      And the reason should be found in the log

    Scenario: The agent hands over to somebody who is not there
      When I say "Connect me with nobody"
      Then "triage" should have been told that there is nobody
      And the session should say that it is on "triage"

    Scenario: The policies have a say
      Given people are asked before "triage" hands over
      When I say "Connect me with billing"
      Then the session should say that it is on "triage"
      When I give leave
      Then the session should say that it is on "billing"

  Rule: A hand-over outlives the process

    Scenario Outline: A crash
      Given <state>
      When I hand the session over to "billing" with none of its history
      And the process crashes
      And I say "My bill"
      Then "billing" should have answered "My bill", with its own model, prompt and tool
      And the model should have been given "My bill"
      And the log should be whole

      Examples:
        | state                            |
        | nothing is under way             |
        | the agent is destroyed           |
        | the model thinks about "Why?"    |

    Scenario: Turns that go on after a crash end before the hand-over
      Given turns go on after a crash
      And the model thinks about "Why?"
      When I hand the session over to "billing"
      And the process crashes
      Then the session should say that it is on "triage"
      When the model has thought
      Then the session should say that it is on "billing"
      And the log should be whole

  Rule: A branch is on the image that held where it branches off

    Scenario: Before and after
      When I hand the session over to "billing"
      And I branch off where "Hello" had been answered, and now
      Then the first branch should be on "triage", and the second on "billing"

    Scenario: A model of its own, of the image that it was handed over to
      When I hand the session over to "billing"
      And I branch off now with the model "other"
      Then the branch should have the model "other", and the prompt and the tool of "billing"

    Scenario: What waited for the end of a turn does not happen in a branch
      Given the model thinks about "Why?"
      When I hand the session over to "billing"
      And I branch off now
      Then the branch should be on "triage"
