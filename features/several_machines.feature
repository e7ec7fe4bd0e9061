Feature: Several machines
  As an operator
  I want several nodes to write one log
  So that conversations go on when a machine is lost or restarted

  Background:
    Given the nodes "A" and "B" on one log in PostgreSQL

  Rule: Any node answers

    Scenario: A session of one node is used from the other
      Given a session on node "B"
      When I send "Hello" to its agent through node "A"
      Then its turn should be completed
      And both nodes should have the same conversation of 2 messages

    Scenario: Who follows a session hears the same from any node
      Given a session on node "B"
      And I follow the session at both nodes
      When I send "Hello" to its agent through node "A"
      Then its turn should be completed
      And I should have heard the same events under the same cursors from both

    Scenario: Handlers hear the sessions of every node
      Given I listen to all events at both nodes
      When I ask "Hello" at each node
      Then each node should have told of both turns, each once

    Scenario: A request that is sent again to another node is carried out once
      Given a session on node "B"
      When I send the request "r-1" with the message "Hello" through node "A"
      And I send the request "r-1" with the message "Hello" through node "B"
      Then both should have been answered with the same turn
      And both nodes should have the same conversation of 2 messages

    Scenario: New sessions are on the node that creates them
      When I ask "Hello" at each node
      Then each session should be on its own node

    Scenario: A session of one node is arranged from the other
      Given a session on node "B"
      When I hand the session over and plan messages through node "A"
      Then both nodes should say on which image it is, and what is to come

  Rule: Sessions move when a node goes

    Scenario: A message that is to come comes at the next node
      Given a session on node "B"
      And a message is to come soon, and another one in an hour
      When node "B" is closed
      Then node "A" should have a conversation of 2 messages in the end
      And one message should be to come at node "A"

    Scenario: An agent lives on when its node is closed
      Given a session on node "B"
      And I send "Hello" to its agent through node "B"
      When node "B" is closed
      And I send "And again" to its agent through node "A"
      Then its turn should be completed
      And the session should be on node "A"
      And node "A" should have a conversation of 4 messages

    Scenario: Who follows a session goes on at the next node with the same cursor
      Given a session on node "B"
      And I follow the session at both nodes
      And I send "Hello" to its agent through node "B"
      When node "B" is closed
      And I send "And again" to its agent through node "A"
      Then the events that I heard at node "A" should be numbered from 1, without holes

  Rule: Nodes and chats do not share a log

    Scenario: A chat is refused while nodes write the log
      When a chat opens the log
      Then it should be refused because the log is being written

    Scenario: The log of several nodes is sound
      Given I ask "Hello" at each node
      When all nodes are closed
      Then the log should be sound
