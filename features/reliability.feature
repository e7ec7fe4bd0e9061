Feature: Reliability
  As a developer
  I want a remote client to receive every event once, in order
  So that no failure of a network, a client or a server loses or repeats one

  Background:
    Given a server with mock driver
    And image "chat" exists on it, with a session

  Rule: Whoever was disconnected goes on where it was

    Scenario: Disconnect during streaming recovers all messages
      Given a remote client subscribed to "chat"
      And mock driver scenario is "long-stream" (100 deltas)
      When client sends message "Test"
      And mock emits 50 text_delta events
      And client disconnects
      And mock continues emitting 50 more events
      And client reconnects
      Then client should receive all 100 text_delta events
      And events should be in order
      And no events should be lost

    Scenario: Disconnect during streaming recovers messages
      Given a remote client subscribed to "chat"
      And mock driver scenario is "long-response" (100 text_delta events)
      When client sends message "Tell me a story"
      And mock driver emits 50 text_delta events
      And client disconnects
      And mock driver continues emitting 50 more events
      And client reconnects
      Then client should receive all 100 text_delta events
      And no events should be lost

    Scenario Outline: It is the same <however>
      Given a remote client subscribed to "chat"
      And mock driver scenario is "long-stream" (100 deltas)
      When client sends message "Test"
      And mock emits <before> text_delta events
      And <the connection is lost>
      And mock continues emitting <after> more events
      And <it is there again>
      Then client should receive all 100 text_delta events
      And events should be in order
      And no events should be lost

      Examples:
        | however                          | before | after | the connection is lost      | it is there again                 |
        | when nothing was said yet        | 0      | 100   | client disconnects          | client reconnects                 |
        | when all was said                | 100    | 0     | client disconnects          | client reconnects                 |
        | when the network resets it       | 50     | 50    | the network breaks          | the network works again           |
        | when nobody says that it is lost | 50     | 50    | the network falls silent    | the network works again           |
        | for a client that begins anew    | 50     | 50    | client forgets everything   | client subscribes under its name  |
        | when the server is stopped       | 50     | 50    | the server stops listening  | the server listens again          |

    Scenario: A server that is killed has kept what it delivered
      Given a remote client subscribed to "chat"
      And mock driver scenario is "long-stream" (100 deltas)
      When client sends message "Test"
      And mock emits 50 text_delta events
      And the server's machine fails, and another one takes over its log
      Then client should receive all 50 text_delta events
      And the turn should be completed as interrupted
      And events should be in order
      And no events should be lost

  Rule: Several consumers are isolated from each other

    Scenario: Each client has its own position
      Given a remote client subscribed to "chat"
      And mock driver scenario is "long-stream" (100 deltas)
      And another remote client subscribed to "chat"
      When client sends message "Test"
      And mock emits 50 text_delta events
      And client disconnects
      And mock continues emitting 50 more events
      Then the other client should receive all 100 text_delta events
      When client reconnects
      Then client should receive all 100 text_delta events
      And no events should be lost

  Rule: What is asked for happens once

    Scenario: A message that the network delivers twice
      Given a remote client subscribed to "chat"
      And the network delivers every message twice
      When client sends message "Hello"
      Then the agent should have been asked once

    Scenario: A message whose answer is lost
      Given a remote client subscribed to "chat"
      And the network loses the next answer
      When client sends message "Hello"
      Then the agent should have been asked once
