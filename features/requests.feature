Feature: Requests
  As a developer
  I want to reach every facade by a request that has a response
  So that a program far away can do what one in the same process can

  Rule: A message that is sent is answered, and its response comes before its stream

    Scenario: Send message triggers stream events
      Given a runtime with mock driver
      And container "workspace" exists
      And image "chat" exists in container "workspace"
      And mock driver scenario is "default"
      And I am subscribed to "text_delta" events
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
      Then I should receive "message_send_response"
      And I should receive "text_delta" events
      And I should receive "message_stop" event
      And text should be "Hello from mock!"

    Scenario: Complete conversation flow with mock driver
      Given a runtime with mock driver
      And container "workspace" exists
      And image "chat" exists in container "workspace"
      And mock driver scenario is "default"
      And I am subscribed to events for image "chat"
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
      Then I should receive "message_send_response"
      And I should receive events in order:
        | message_start |
        | text_delta    |
        | text_delta    |
        | text_delta    |
        | message_stop  |
      And I should receive "assistant_message" event
      And assistant message content should contain "Hello from mock!"

    Scenario: The response comes after the question and before the stream
      Given a runtime with mock driver
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
      Then I should hear these in this order:
        | user_message          |
        | message_send_response |
        | message_start         |
      And the response should name the turn, the agent and the session of the question
      And the response should have no cursor

  Rule: A message finds its agent

    Scenario: An image has one default session
      Given a runtime with mock driver
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
      And I call runtime.request("message_send_request", {"image_id": "chat", "content": "Again"})
      Then container "default" should have 1 session, on image "chat"
      And both messages should be in it

    Scenario: An image has one default session in each container
      Given a runtime with mock driver
      And container "workspace" exists
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
      And I call runtime.request("message_send_request", {"image_id": "chat", "container_id": "workspace", "content": "Hello"})
      Then container "default" should have 1 session, on image "chat"
      And container "workspace" should have 1 session, on image "chat"

    Scenario: A session's agent is started when needed
      Given a runtime with mock driver
      And a container "default" exists
      And a session "session-1" exists in container "default" with image "chat"
      When I call runtime.request("message_send_request", {"session_id": "session-1", "content": "Hello"})
      Then the response should name the turn, the agent and the session of the question
      And the agent of session "session-1" should be running

    Scenario: A live agent is spoken to
      Given a runtime with mock driver
      And a container "default" exists
      And a session "session-1" exists in container "default" with image "chat"
      And an agent is running from session "session-1"
      When I send message "Hello" to the agent by request
      Then the response should name the turn, the agent and the session of the question

  Rule: What a request did, the facades show

    Scenario: A whole life by requests
      Given a runtime with mock driver
      When I make these requests:
        | container_create_request   | {"name": "lab", "container_id": "lab"}                           |
        | image_register_request     | {"image": {"id": "chat", "name": "Chat"}}                        |
        | session_create_request     | {"container_id": "lab", "image_id": "chat", "session_id": "ses"} |
        | session_branch_request     | {"session_id": "ses", "new_session_id": "twig"}                  |
        | session_switch_request     | {"session_id": "twig", "image": "chat", "history": "none"}       |
        | session_run_request        | {"session_id": "ses"}                                            |
        | agent_schedule_request     | {"session_id": "ses", "content": "Hello", "every": 3600}         |
        | agent_schedules_request    | {"session_id": "ses"}                                            |
        | agent_cancel_schedule_request | {"schedule_id": "sch_gone"}                                   |
        | container_get_request      | {"container_id": "lab"}                                          |
        | container_list_request     | {}                                                               |
        | image_get_request          | {"image_id": "chat"}                                             |
        | image_list_request         | {}                                                               |
        | session_get_request        | {"session_id": "ses"}                                            |
        | session_list_request       | {"container_id": "lab"}                                          |
        | session_messages_request   | {"session_id": "ses"}                                            |
        | session_turns_request      | {"session_id": "ses"}                                            |
        | session_tool_calls_request | {"session_id": "ses"}                                            |
        | session_usage_request      | {"session_id": "ses"}                                            |
        | session_page_request       | {"container_id": "lab", "waiting": false, "limit": 1}            |
        | turn_locate_request        | {"turn_id": "trn"}                                               |
        | agent_pending_request      | {"session_id": "ses"}                                            |
        | agent_list_request         | {}                                                               |
        | session_delete_request     | {"session_id": "ses"}                                            |
        | agent_get_request          | {"agent_id": "agt_gone"}                                         |
        | agent_interrupt_request    | {"agent_id": "agt_gone"}                                         |
        | agent_destroy_request      | {"agent_id": "agt_gone"}                                         |
      Then each should have been answered by its own response, under its own request ID
      And container "lab" should have 1 session

  Rule: A request that is sent twice is carried out once

    Scenario: A message is sent again because nobody heard the response
      Given a runtime with mock driver
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello", "request_id": "r1"})
      And I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello", "request_id": "r1"})
      Then each should have been given the same answer
      And "Hello" should have been said once

    Scenario Outline: Whatever is asked again is answered again, and nothing has changed
      Given a runtime with mock driver
      And a container "default" exists
      And a session "session-1" exists in container "default" with image "chat"
      When I call runtime.request("<request>", <data>)
      And I have looked at everything
      And I call runtime.request("<request>", <data>)
      Then each should have been given the same answer
      And everything should be what it was

      Examples:
        | request                  | data                                                                     |
        | container_create_request | {"name": "lab", "request_id": "r1"}                                      |
        | image_register_request   | {"image": {"name": "New"}, "request_id": "r1"}                           |
        | session_create_request   | {"container_id": "default", "image_id": "chat", "request_id": "r1"}      |
        | session_branch_request   | {"session_id": "session-1", "request_id": "r1"}                          |
        | session_delete_request   | {"session_id": "session-1", "request_id": "r1"}                          |
        | session_run_request      | {"session_id": "session-1", "request_id": "r1"}                          |
        | message_send_request     | {"session_id": "session-1", "content": "Hello", "request_id": "r1"}      |

    Scenario: It is sent from many places at once
      Given a runtime with mock driver
      And an image "chat" exists
      When this is asked for 8 times at once: "message_send_request", {"image_id": "chat", "content": "Hello", "request_id": "r1"}
      Then each should have been given the same answer
      And "Hello" should have been said once

    Scenario: The runtime was restarted in between
      Given a runtime with mock driver
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello", "request_id": "r1"})
      And I close the runtime and open it again
      And I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello", "request_id": "r1"})
      Then each should have been given the same answer
      And "Hello" should have been said once

    Scenario: The agent that was started has ended since
      Given a runtime with mock driver
      And a container "default" exists
      And a session "session-1" exists in container "default" with image "chat"
      When I call runtime.request("session_run_request", {"session_id": "session-1", "request_id": "r1"})
      And I close the runtime and open it again
      And I call runtime.request("session_run_request", {"session_id": "session-1", "request_id": "r1"})
      Then each should have been given the same answer
      And no agent should be running

    Scenario: What was refused is tried again
      Given a runtime with mock driver
      And a container "default" exists
      And an image "chat" exists
      When I call runtime.request("session_run_request", {"session_id": "session-1", "request_id": "r1"})
      And I call runtime.request("session_create_request", {"container_id": "default", "image_id": "chat", "session_id": "session-1"})
      And I call runtime.request("session_run_request", {"session_id": "session-1", "request_id": "r1"})
      Then the agent of session "session-1" should be running

    Scenario: The ID of a request is used for another one
      Given a runtime with mock driver
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": "Hello", "request_id": "r1"})
      And I call runtime.request("message_send_request", {"image_id": "chat", "content": "Bye", "request_id": "r1"})
      Then it should be refused because the request ID was used for another request
      And "Hello" should have been said once

  Rule: A request that fails is answered with an error, and raises it

    Scenario Outline: Something does not exist
      Given a runtime with mock driver
      And a container "default" exists
      And an image "chat" exists
      When I call runtime.request("<request>", <data>)
      Then it should fail with <kind> not found error
      And "<response>" should have been published with error code "<kind>_not_found"

      Examples:
        | request                  | response                  | kind      | data                                            |
        | session_create_request   | session_create_response   | container | {"container_id": "gone", "image_id": "chat"}    |
        | session_create_request   | session_create_response   | image     | {"container_id": "default", "image_id": "gone"} |
        | session_run_request      | session_run_response      | session   | {"session_id": "gone"}                          |
        | session_messages_request | session_messages_response | session   | {"session_id": "gone"}                          |
        | session_usage_request    | session_usage_response    | session   | {"session_id": "gone"}                          |
        | agent_pending_request    | agent_pending_response    | agent     | {"agent_id": "gone"}                            |
        | session_list_request     | session_list_response     | container | {"container_id": "gone"}                        |
        | message_send_request     | message_send_response     | agent     | {"agent_id": "gone", "content": "Hello"}        |
        | message_send_request     | message_send_response     | session   | {"session_id": "gone", "content": "Hello"}      |
        | message_send_request     | message_send_response     | image     | {"image_id": "gone", "content": "Hello"}        |

    Scenario: A message is empty
      Given a runtime with mock driver
      And an image "chat" exists
      When I call runtime.request("message_send_request", {"image_id": "chat", "content": " "})
      Then it should be refused as an invalid message
      And "message_send_response" should have been published with error code "invalid_message"

    Scenario: An ID is taken
      Given a runtime with mock driver
      And a container "default" exists
      When I call runtime.request("container_create_request", {"container_id": "default"})
      Then it should be refused because the ID exists
      And "container_create_response" should have been published with error code "already_exists"

    Scenario: There is no such request
      Given a runtime with mock driver
      When I call runtime.request("container_delete_request", {"container_id": "default"})
      Then it should be refused because there is no such request
