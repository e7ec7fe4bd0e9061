Feature: Schedules
  As somebody who wants an agent to do something tomorrow, or every morning
  I want messages that come when it is time
  So that nobody has to sit there and send them

  Background:
    Given a session, and a clock that I move

  Rule: A message comes when its time has come

    Scenario: Once
      When I schedule "Report" in 60 seconds
      And 59 seconds pass
      Then the agent should have been told nothing
      When 1 second passes
      Then the agent should have been told "Report"
      And no message should be to come

    Scenario: Again and again
      When I schedule "Report" every 60 seconds
      And 60 seconds pass, 3 times
      Then the agent should have been told "Report", "Report", "Report"
      And one message should be to come

    Scenario: Up to a time
      When I schedule "Report" every 60 seconds, for 150 seconds
      And 60 seconds pass, 3 times
      Then the agent should have been told "Report", "Report"
      And no message should be to come

    Scenario: From a time on
      When I schedule "Report" every 60 seconds, the first in 10 seconds
      And 10 seconds pass
      Then the agent should have been told "Report"
      When 60 seconds pass
      Then the agent should have been told "Report", "Report"

    Scenario: At a time that has passed
      When I schedule "Report" in -60 seconds
      Then the agent should have been told "Report"
      And it should have come late

    Scenario: No agent is live
      Given the agent is destroyed
      When I schedule "Report" in 60 seconds
      And 60 seconds pass
      Then the agent should have been told "Report"
      And an agent should be live

    Scenario: The agent is busy
      Given the agent answers "Why?"
      When I schedule "Report" in 60 seconds
      And 60 seconds pass
      Then "Report" should wait for its turn
      When the agent has answered
      Then the agent should have been told "Why?", "Report"

    Scenario: Several
      When I schedule "Tea" in 60 seconds
      And I schedule "Coffee" in 30 seconds
      And 30 seconds pass
      And 30 seconds pass
      Then the agent should have been told "Coffee", "Tea"

  Rule: What is to come can be seen and called off

    Scenario: Seen
      When I schedule "Tea" in 60 seconds
      And I schedule "Coffee" every 30 seconds
      Then "Coffee", "Tea" should be to come, in this order

    Scenario: Called off
      When I schedule "Report" every 60 seconds
      And 60 seconds pass
      And I cancel it
      And 60 seconds pass
      Then the agent should have been told "Report"
      And to cancel it again should come to nothing

    Scenario Outline: What cannot be meant
      When I schedule "Report" <when>
      Then it should be refused because <why>

      Examples:
        | when                                    | why                     |
        | at no time                              | say when                |
        | every 0 seconds                         | from 1 to               |
        | every 60 seconds, for 30 seconds        | before the first        |
        | at a time of nowhere                    | with a time zone        |
        | once, for 30 seconds                    | goes with `every`       |

  Rule: Messages to come survive the process

    Scenario: The time comes when it runs again
      When I schedule "Report" in 60 seconds
      And the process crashes
      And 60 seconds pass
      Then the agent should have been told "Report"
      And it should have come in time

    Scenario: The time is missed
      When I schedule "Report" in 60 seconds
      And nothing runs for 3600 seconds
      Then the agent should have been told "Report"
      And it should have come late

    Scenario: Many times are missed
      When I schedule "Report" every 60 seconds
      And nothing runs for 3610 seconds
      Then the agent should have been told "Report"
      And it should have come late
      When 50 seconds pass
      Then the agent should have been told "Report", "Report"
      And the last should have come in time

    Scenario: The last time is missed
      When I schedule "Report" every 60 seconds, for 150 seconds
      And nothing runs for 3600 seconds
      Then the agent should have been told "Report"
      And no message should be to come

    Scenario: Nobody can answer at that time
      When I schedule "Report" in 60 seconds
      And nothing runs for 30 seconds
      And it runs for 60 seconds without a model
      And nothing runs for 30 seconds
      Then the agent should have been told "Report"
      And it should have come late

  Rule: Messages to come are those of their session

    Scenario: The session is deleted
      When I schedule "Report" in 60 seconds
      And I delete the session
      And 60 seconds pass
      Then the agent should have been told nothing
      And no message should be to come

    Scenario: A branch
      When I schedule "Report" in 60 seconds
      And I branch off
      And 60 seconds pass
      Then the agent should have been told "Report"
      And the branch should have been told nothing

    Scenario: After a hand-over
      When I schedule "Report" in 60 seconds
      And I hand the session over to another image
      And 60 seconds pass
      Then the other agent should have been told "Report"

  Rule: The log says why a message came

    Scenario: It is found
      When I schedule "Report" in 60 seconds
      And 60 seconds pass
      Then the agent should have been told "Report"
      And the schedule should be found as the reason
      And the log should be whole
