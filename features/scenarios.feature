Feature: Mock scenarios
  As a developer
  I want a mock that answers by the script I choose
  So that I can test what I build without a model

  Background:
    Given a runtime with mock driver
    And image "chat" exists in container "default"

  Rule: The stream is the script

    Scenario: Send message triggers stream events
      Given mock driver scenario is "default"
      And I am subscribed to "text_delta" events
      When I send message "Hello" to image "chat"
      Then I should receive 3 "text_delta" events
      And text should be "Hello from mock!"

    Scenario: Message triggers complete stream events
      Given mock driver scenario is "simple-text"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start |
        | text_delta    |
        | message_stop  |

    Scenario: Thinking is never answer text
      Given mock driver scenario is "with-thinking"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start  |
        | thinking_start |
        | thinking_delta |
        | thinking_end   |
        | text_delta     |
        | message_stop   |
      And text should be "Answer"
      And the last answer should be "Answer", whole, because of "end_turn"
      And the last answer should hold the thought "Let me analyze..."

    Scenario: A tool is called
      Given mock driver scenario is "with-tool"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start |
        | text_delta    |
        | tool_call     |
        | text_delta    |
        | message_stop  |
      And the call should be of "bash" with {"command": "ls"}
      And text should be "Let me checkI found files"

    Scenario: A tool is called and has answered
      Given mock driver scenario is "with-tool-use"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start |
        | tool_call     |
        | tool_result   |
        | text_delta    |
        | message_stop  |
      And text should be "I see 2 files"

    Scenario: The model fails
      Given mock driver scenario is "error"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start |
        | error         |
      And the error should say "Rate limit exceeded"
      And the agent should be in state "error"

    Scenario: The model's limit is reached
      Given mock driver scenario is "rate-limit-error"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start |
        | error         |
      And the error should be of type "rate_limit_exceeded"
      And the agent should be in state "error"

    Scenario Outline: A long answer comes whole and in order
      Given mock driver scenario is "<scenario>"
      And I am subscribed to "text_delta" events
      When I send message "Test" to image "chat"
      Then I should receive 100 "text_delta" events
      And they should be "chunk-0 " to "chunk-99 ", in order

      Examples:
        | scenario      |
        | long-stream   |
        | long-response |

    Scenario: An interrupt ends the script in the middle of a delay
      Given mock driver scenario is "endless"
      And I am subscribed to stream events
      When I send message "Hello" to image "chat" and interrupt it after "Once upon"
      Then I should receive events in order:
        | message_start |
        | text_delta    |
        | interrupted   |
      And text should be "Once upon"
      And the agent should be in state "idle"

  Rule: What the script leaves out is put in

    Scenario: A script without message_start
      Given a scenario "curt" that says "Hi" and stops
      And mock driver scenario is "curt"
      And I am subscribed to stream events
      When I send "Hello" to image "chat"
      Then I should receive events in order:
        | message_start |
        | text_delta    |
        | message_stop  |
      And the message should have an ID

  Rule: The script is chosen for the next message

    Scenario: A live agent changes its script
      Given mock driver scenario is "simple-text"
      And I send message "Hello" to image "chat"
      When mock driver scenario is "default"
      And I send message "Hello" to image "chat"
      Then the conversation should be:
        | user      | Hello            |
        | assistant | Hi               |
        | user      | Hello            |
        | assistant | Hello from mock! |

    Scenario: A script of one's own looks at the conversation
      Given mock driver scenario is "attentive"
      And I send message "One" to image "chat"
      When I send message "Two" to image "chat"
      Then the conversation should be:
        | user      | One                              |
        | assistant | You said: One (answered: 0)      |
        | user      | Two                              |
        | assistant | You said: One, Two (answered: 1) |

    Scenario: A script that nobody defined is refused, and the one before stays
      Given mock driver scenario is "simple-text"
      When I choose mock driver scenario "no-such-scenario"
      Then it should fail because nobody defined that scenario
      And the mock should still answer "Hi"

  Rule: A mock that is a provider says the same

    Scenario Outline: Message triggers complete stream events from a provided driver
      Given a runtime with mock LLM provider
      And image "chat" exists in container "default"
      And mock driver scenario is "<scenario>"
      When I send "Hello" to image "chat"
      Then text should be "<text>"

      Examples:
        | scenario      | text                      |
        | default       | Hello from mock!          |
        | simple-text   | Hi                        |
        | with-thinking | Answer                    |
        | with-tool     | Let me checkI found files |
        | with-tool-use | I see 2 files             |
