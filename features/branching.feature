Feature: Branching
  As somebody who wonders what would have happened
  I want a session to go on with the history of another one
  So that I can try something else, and lose nothing

  Background:
    Given a session in which "Hello" was answered with "Hi" and "What now?" with "Tea"

  Rule: A branch goes on with the history, and the original stays as it is

    Scenario: Branching now
      When I branch off
      And I say "And then?" in the branch
      Then the model should have been given "Hello", "Hi", "What now?", "Tea", "And then?"
      And the original should be what it was

    Scenario: Branching in the past
      When I branch off where "Hi" had been said
      And I say "Coffee?" in the branch
      Then the model should have been given "Hello", "Hi", "Coffee?"
      And the original should be what it was

    Scenario: The original goes on by itself
      When I branch off
      And I say "More tea" in the original
      Then the branch should hold "Hello", "Hi", "What now?", "Tea"

    Scenario: A branch of a branch of a session that is deleted
      When I branch off
      And the original is deleted
      And I branch off from the branch
      And I say "Still there?" in the branch
      Then the model should have been given "Hello", "Hi", "What now?", "Tea", "Still there?"

    Scenario: The lineage is visible
      When I branch off where "Hi" had been said
      Then the branch should say that it begins with what the original was then
      And whoever follows the branch should hear of its beginning first, and of the original nothing

  Rule: A branch may differ from the beginning on

    Scenario: Another question
      When I branch off with "What never?" as the question
      And I run the branch
      Then the model should have been given "Hello", "Hi", "What never?"
      And the original should be what it was

    Scenario: Another model
      When I branch off with the model "other"
      And I say "Who are you?" in the branch
      Then the branch should run on the model "other", with the tools of the original
      And the original should run on the model "usual"

  Rule: What was under way ends in the branch, and what waits for a person waits in both

    Scenario: A branch while the model answers
      Given the model thinks about "Why?"
      When I branch off
      And I say "Never mind" in the branch
      Then the model should have been given "Hello", "Hi", "What now?", "Tea", "Why?", "Never mind"
      And the turn about "Why?" should be under way in the original, and interrupted in the branch

    Scenario: A message that waits is answered in both
      Given the model thinks about "Why?"
      And "What for?" waits
      When I branch off
      And I run the branch
      Then the model should have been given "Hello", "Hi", "What now?", "Tea", "Why?", "What for?"

    Scenario: Deciding otherwise
      Given the agent waits for leave to send a mail
      When I branch off
      And I approve the mail in the branch
      And I reject the mail in the original
      Then the mail should have been sent once
      And the model should have been told "sent" in the branch, and that it was rejected in the original

  Rule: A branch is in the log as soon as I know of it

    Scenario: A crash right after branching
      When I branch off
      And the process crashes
      And I say "And then?" in the branch
      Then the model should have been given "Hello", "Hi", "What now?", "Tea", "And then?"

    Scenario: I do not know whether it was branched, and ask again
      When I ask twice to branch off, with the same request
      Then there should be one branch
