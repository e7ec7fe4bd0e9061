Feature: Turns as traces
  As somebody who runs agents
  I want to see what they do in the tools that I watch my other services with
  So that one place tells me what is slow, what fails and what it costs

  Background:
    Given a collector of OpenTelemetry
    And an agent whose turns are sent to it

  Rule: What happened is a trace, as the conventions have it

    Scenario: A turn with a tool
      When I ask "Find plums"
      Then the collector should have a trace with "invoke_agent", and below it
        | chat         |
        | execute_tool |
        | chat         |

    Scenario: A person is waited for
      When I ask "Write to Ann"
      And Bob approves the mail
      Then the collector should have 2 traces, the second linked to the first
      And it should see how long Bob was waited for

    Scenario: A turn fails
      When I ask "Fail"
      Then the trace should say that the model is overloaded

    Scenario: A branch
      Given I have asked "Hello"
      When I branch off and ask "Find plums" there
      Then the collector should have 2 traces, the second linked to the first

  Rule: What was said is not sent unless that is wanted

    Scenario: By itself
      When I ask "Find plums"
      Then the collector should not see the word "plums"

    Scenario: If it is wanted
      Given the content is wanted, too
      When I ask "Find plums"
      Then the collector should see the word "plums"

  Rule: The log decides what is sent, so that nothing is lost or new

    Scenario: The collector is down for a while
      Given the collector is down
      When I ask "Find plums"
      Then I should have an answer
      When the collector is up again
      Then the collector should have 1 trace

    Scenario: The program is started again
      Given I have asked "Hello"
      When the program ends and is started again
      And I ask "Hello"
      Then the collector should have 2 traces, and no span twice

    Scenario: The log is sent once more
      Given I have asked "Find plums"
      When the log is sent to another collector
      Then that one should have the very same spans

  Rule: Metrics are sums over the log

    Scenario: What was used
      Given metrics are wanted, too
      When I ask "Find plums"
      Then the collector should know of 2 questions to the model, with 16 tokens of output
