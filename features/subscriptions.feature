Feature: Subscriptions
  As a developer
  I want subscribers to be independent of each other and of the agents
  So that a mistake in one of them harms nobody

  Background:
    Given a runtime is initialized
    And a container "default" exists
    And an image "chat" exists
    And a session "session-1" exists in container "default" with image "chat"

  Scenario: A handler that raises harms nobody
    Given a handler for "text_delta" events that always raises
    And I subscribe to "text_delta" events
    When an agent runs and produces text
    Then I should receive "text_delta" events
    And the handler that raises should have been called 3 times
    And what it raised should be in the log of "reenact.events"

  Scenario: Unsubscribing twice is unsubscribing once
    Given I subscribe to "text_delta" events
    When I unsubscribe
    And I unsubscribe
    And an agent runs and produces text
    Then I should not receive any events

  Scenario: A subscription ends with its block
    Given a block in which I subscribe to "text_delta" events
    When the block is left
    And an agent runs and produces text
    Then I should not receive any events

  Scenario: A handler that unsubscribes inside itself hears nothing more
    Given a handler for "text_delta" events that unsubscribes at the first
    When an agent runs and produces text
    Then it should have heard 1 event

  Scenario: A handler that subscribes inside itself hears from the next event on
    Given a handler for "message_start" events that subscribes to "text_delta" events
    When an agent runs and produces text
    Then I should receive "text_delta" events

  Scenario: A handler may call any facade
    Given a handler for "turn_completed" events that reads the conversation
    When an agent runs and produces text
    Then it should have read:
      | user      | Hello            |
      | assistant | Hello from mock! |

  Scenario: An unknown event type is refused at once
    When I try to subscribe to "text_dleta" events
    Then it should fail because there is no such event type

  Scenario: Who joins late hears what comes, not what was
    Given an agent runs and produces text
    And I subscribe to "text_delta" events
    When I send message "Again" to the agent
    Then I should receive the "text_delta" events of the second turn only
