Feature: Delivery
  As a developer
  I want to follow a session from any point of it
  So that I have every event once, whenever I come and however long I was away

  Background:
    Given a runtime is initialized
    And a container "default" exists
    And an image "chat" exists
    And a session "session-1" exists in container "default" with image "chat"
    And an agent is running from session "session-1"

  Rule: A session is followed from its first event, from a cursor, or from what was acknowledged

    Scenario: Who comes late hears everything
      Given I send message "Hello" to the agent
      And its turn is over
      When I follow the session as "laptop"
      Then I should hear the session from its first event

    Scenario: Who comes while it streams hears everything
      Given the agent is processing a message
      When I follow the session as "laptop"
      And I interrupt the agent
      Then I should hear the session from its first event

    Scenario: From a cursor
      Given I send message "Hello" to the agent
      And its turn is over
      When I follow the session from behind cursor 5
      Then I should hear the session from event 6 on

    Scenario: From what was acknowledged
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      And I have heard 7 events
      And I acknowledge them
      When I leave, and follow the session as "laptop"
      Then I should hear the session from event 8 on

    Scenario: What is heard and not acknowledged comes again
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      And I have heard 7 events
      When I leave, and follow the session as "laptop"
      Then I should hear the session from its first event

    Scenario: An older acknowledgement is ignored
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      And I have heard 7 events
      And I acknowledge them
      And I acknowledge cursor 3
      When I leave, and follow the session as "laptop"
      Then I should hear the session from event 8 on

    Scenario: Consumers are independent
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      And I have heard 7 events
      And I acknowledge them
      When I follow the session as "phone"
      Then I should hear the session from its first event

    Scenario: Acknowledgements outlive the process
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      And I have heard 7 events
      And I acknowledge them
      When the process crashes and the runtime is opened again
      And I follow the session as "laptop"
      Then the next event should be event 8

  Rule: It ends when nothing more comes

    Scenario: A deleted session is followed to its end
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      When I delete the session
      Then I should hear the session from its first event
      And the last event should be "session_deleted"
      And nothing more should come

    Scenario: Closing the runtime ends it
      Given I send message "Hello" to the agent
      And its turn is over
      And I follow the session as "laptop"
      And I have heard 14 events
      When I close the runtime
      Then nothing more should come

    Scenario: A session that never was
      When I try to follow the session "session-9"
      Then it should fail with session not found error
