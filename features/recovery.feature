Feature: Recovery
  As a developer
  I want a process that is killed at any moment to have lost nothing that it promised
  So that the work of an agent outlives the process it runs in, and is done once

  Background:
    Given an agent with the tools "pay" and "send", which must not run twice
    And the tools "look" and "peek", which may

  Rule: What was accepted is there; what was not is there as a whole or not at all

    Scenario: A message that was not recorded yet
      When I send messages, and the process is killed before the first one is recorded
      And the runtime is opened again
      Then no message should have been accepted
      And the conversation should have 0 questions

    Scenario: A message that was recorded, and nobody was told
      When I send messages, and the process is killed after the first one is recorded
      And the runtime is opened again
      Then no message should have been accepted
      And the conversation should have 1 question

    Scenario: What subscribers have heard
      When I send messages, and the process is killed after the second answer is published
      And the runtime is opened again
      Then what subscribers have heard should be there under its numbers
      And every turn should have ended once

    Scenario: Messages that wait
      When messages wait, and the process is killed before the first answer is recorded
      And the runtime is opened again
      And the session is run
      Then the waiting messages should be answered in their order

    Scenario: A request that is sent again
      When I send requests, and the process is killed after the first one is recorded
      And the runtime is opened again
      And I send the requests again
      Then each should have been carried out once

  Rule: A tool runs once, or as often as it may, and nobody is lied to

    Scenario Outline: What became of a tool is not known
      When tools run, and the process is killed <moment>
      And the runtime is opened again to <recovery> the turn
      Then "<tool>" should have run <times>
      And the model should be told <answer>

      Examples:
        | tool | moment              | recovery | times   | answer                    |
        | pay  | before "pay" runs   | resume   | 0 times | that nobody knows         |
        | pay  | when "pay" has run  | resume   | 1 time  | that nobody knows         |
        | send | before "send" runs  | close    | 0 times | that nobody knows         |
        | send | when "send" has run | close    | 1 time  | that nobody knows         |
        | look | before "look" runs  | resume   | 1 time  | what came of it           |
        | look | when "look" has run | resume   | 2 times | what came of it           |
        | peek | when "peek" has run | close    | 1 time  | that nobody knows         |

    Scenario: What became of a tool is recorded
      When tools run, and the process is killed after the first outcome is recorded
      And the runtime is opened again to resume the turn
      Then the tool whose outcome is recorded should not have run again
      And the model should be told what came of it

  Rule: What waits for a person goes on waiting

    Scenario Outline: A call that waits for approval
      When a call waits for approval, and the process is killed after it was recorded that it waits
      And the runtime is opened again to <recovery> the turn
      Then the call should wait for approval
      And it should run once when it is approved

      Examples:
        | recovery |
        | close    |
        | resume   |

  Rule: A crash while a crash is recovered from is like the first one

    Scenario Outline: The process is killed again
      When tools run, and the process is killed after the first outcome is recorded
      And it is killed again while it recovers, to <recovery> the turn
      And the runtime is opened again to <recovery> the turn
      Then every turn should have ended once
      And the log should be whole

      Examples:
        | recovery |
        | close    |
        | resume   |
