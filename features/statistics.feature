Feature: What it comes to
  As somebody who pays for what agents do
  I want the log to tell how much they do, what that costs, and how long it takes
  So that I know before the invoice comes, and see what goes wrong

  Background:
    Given an agent that was asked "Please write to Ann", and wants to send a mail
    And Bob has approved the mail, and the agent has answered "Ann has mail"

  Rule: Everything is counted once

    Scenario: A mail was sent
      When I ask what all of it comes to
      Then there should be 2 turns, one of which waited and one of which was completed
      And there should be 1 call, and 1 approval that somebody waited for
      And there should be 2 answers, each with a time to its first delta

    Scenario: A branch has inherited the mail
      Given a branch of the session, in which nothing was said
      When I ask what all of it comes to
      Then there should be 2 turns, one of which waited and one of which was completed
      And there should be 1 call, and 1 approval that somebody waited for

    Scenario: The deltas are compacted
      Given the deltas in the log are compacted
      When I ask what all of it comes to
      Then there should be 2 answers, each with a time to its first delta

  Rule: A cost that is unknown is no 0

    Scenario: A model without a price
      When I ask what all of it comes to
      Then the cost of 2 answers should be unknown

    Scenario: A model with a price
      Given a price of 10 for a million tokens of the model
      And the agent is asked "And to Bob", and answers
      When I ask what it comes to by model
      Then the model with a price should have cost 0.0003

  Rule: Figures are told apart by what one wants to know

    Scenario: By tool
      When I ask what it comes to by tool
      Then only the mail should be in the list

    Scenario: By day
      When I ask what it comes to by day
      Then all of it should be on one day

    Scenario: Before it happened
      When I ask what all before it comes to
      Then there should be nothing
