# Feature: Agent Runtime 初始化和配置 · 步骤执行 · LLM 调用执行器 · 工具调用执行器 · 人机交互执行器 · 完成执行器 · 状态创建 · 完整对话流程
Feature: Agent runtime
  As a developer
  I want to run an agent one step at a time
  So that every decision, call and answer is an event, and the conversation is the fold of its events

  # Scenario: 使用默认内置执行器创建运行时
  Scenario: Create a runtime with the built-in executors
    Given a basic agent
    When I create an AgentRuntime without a configuration
    Then the runtime should have all built-in executors
    And the executors should include:
      | executor              |
      | call_llm              |
      | call_tool             |
      | finish                |
      | request_human_approve |
      | request_human_prompt  |
      | request_human_select  |

  # Scenario: 配置执行器覆盖内置执行器
  Scenario: Executors of the configuration override built-in ones
    Given a basic agent
    And a custom "finish" executor in the configuration
    When I create an AgentRuntime
    Then the "finish" executor should be the configuration's
    And the other built-in executors should be unchanged

  # Scenario: Agent 执行器具有最高优先级
  Scenario: The agent's executors take precedence
    Given a basic agent
    And a custom "finish" executor of the agent
    And a custom "finish" executor in the configuration
    When I create an AgentRuntime
    Then the "finish" executor should be the agent's
    And the configuration's "finish" executor should not be used

  # Scenario: 执行已批准的工具调用
  Scenario: Execute an approved tool call
    Given an agent with the tool "test_tool" that returns {"result": "success"}
    When I make a step with the call "call_123" of "test_tool" with {"input": "test"}
    Then the tool "test_tool" should have been called with {"input": "test"}
    And the first event should be the tool result of "call_123" with {"result": "success"}
    And the messages should contain the answer {"result":"success"} to "call_123"

  # Scenario: 标准的 Agent 决策流程
  Scenario: The agent decides what is done
    Given an agent that asks to finish with the reason "Task completed"
    When I make a step
    Then the agent's runner should have been called once
    And the events should be "done"
    And the history should contain the events of the step

  # Scenario: 处理执行过程中的错误
  Scenario: An error of the agent becomes an event
    Given an agent that raises "Agent error"
    When I make a step
    Then the events should be "error"
    And the error message should contain "Agent error"
    And the status should be "error"
    And the state should hold the error "Agent error"

  # Scenario: 要求配置 modelRuntime
  Scenario: A model is required to call one
    Given an agent that asks to call the model
    And no model is configured
    When I make a step
    Then the events should be "error"
    And the error message should contain "LLM provider is required"

  # Scenario: 处理流式 LLM 响应
  Scenario: A model's answer is streamed
    Given an agent that asks to call the model
    And a model that streams "Hello", " world" and "!"
    When I make a step
    Then the events should be "llm_start, llm_stream, llm_stream, llm_stream, llm_result"
    And the model's answer should be "Hello world!" without tool calls

  # Scenario: 处理包含工具调用的 LLM 响应
  Scenario: A model's answer calls for a tool
    Given an agent that asks to call the model
    And a model that says "I need to use a tool" and calls "test_tool" as "call_123"
    When I make a step
    Then the model's answer should be "I need to use a tool"
    And the model's answer should call "test_tool" as "call_123"

  # Scenario: 成功执行工具并添加结果到消息
  Scenario: A tool's result becomes a message
    Given an agent with the tool "calculator" that returns {"result": 42}
    When I make a step with the call "call_123" of "calculator" with {"expression": "2+2"}
    Then the tool "calculator" should have been called with {"expression": "2+2"}
    And the first event should be the tool result of "call_123" with {"result": 42}
    And the messages should contain the answer {"result":42} to "call_123"

  # Scenario: 处理未知工具错误
  Scenario: An unknown tool is an error
    Given a basic agent
    When I make a step with the call "call_123" of "unknown_tool" with {}
    Then the events should be "error"
    And the error message should contain "Tool not found: unknown_tool"

  # Scenario: 处理人工批准请求
  Scenario: A person is asked for approval
    Given an agent that asks for approval of the call "call_123" of "test_tool"
    When I make a step
    Then the events should be "human_approve_required, tool_pending"
    And the first event should name the session "test-session"
    And the status should be "waiting_for_human_input"
    And the pending calls should be "call_123"

  # Scenario: 处理人工输入提示请求
  Scenario: A person is asked for text
    Given an agent that asks a person "Please provide input" with the metadata {"key": "value"}
    When I make a step
    Then the events should be "human_prompt_required"
    And the first event should name the session "test-session"
    And the first event should ask "Please provide input" with the metadata {"key": "value"}
    And the status should be "waiting_for_human_input"

  # Scenario: 处理人工选择请求
  Scenario: A person is asked to select
    Given an agent that asks a person to "Choose an option" from:
      | label    | value |
      | Option 1 | opt1  |
      | Option 2 | opt2  |
    When I make a step
    Then the events should be "human_select_required"
    And the first event should name the session "test-session"
    And the first event should ask "Choose an option" with one choice of:
      | label    | value |
      | Option 1 | opt1  |
      | Option 2 | opt2  |
    And the status should be "waiting_for_human_input"

  # Scenario: 标记对话为完成状态
  Scenario: The conversation is marked as done
    Given an agent that asks to finish with the reason "Task completed"
    When I make a step
    Then the events should be "done"
    And the first event should hold the final state with the reason "Task completed"
    And the status should be "done"

  # Scenario: 创建不带消息的初始状态
  Scenario: Create an initial state without messages
    When I create an initial state for the session "test-session"
    Then the state should be of the session "test-session"
    And the state should have no messages
    And the initial status should be "idle"
    And the times of creation and last modification should be set

  # Scenario: 创建带消息的初始状态
  Scenario: Create an initial state with messages
    When I create an initial state for the session "test-session" with the message "Hello world" of the user
    Then the state should have the message "Hello world" of the user

  # Scenario: 完成一个包含工具调用的完整对话流程
  Scenario: Complete a conversation with a tool call
    Given an agent with a weather tool that decides by what has happened
    And a model that knows when to ask for the weather
    When the user asks "What's the weather in Beijing?"
    And I make a step
    Then the status should be "running"
    And the model should have called for the weather tool
    When I make a step
    Then the status should be "waiting_for_human_input"
    And there should be 1 pending call
    When I approve the pending call
    Then the tool "get_weather" should have been called with {"city": "Beijing"}
    When I make a step
    Then the model's answer should contain "25°C and sunny"
    And the conversation should be the fold of its events

  # Rule: 执行器优先级
  Rule: Executors of the agent come before those of the configuration, and these before built-in ones

    Scenario Outline: Who executes an instruction
      Given a basic agent
      And the instruction "finish" is executed by <who>
      When I create an AgentRuntime
      Then the "finish" executor should be <whose>

      Examples:
        | who                                  | whose               |
        | nobody else                          | built in            |
        | the configuration                    | the configuration's |
        | the agent                            | the agent's         |
        | both the agent and the configuration | the agent's         |

  # Rule: 事件累积
  Rule: The events of every step are added to the history

    Scenario: Three steps
      Given an agent that asks to call the model
      And a model that streams "Hello", " world" and "!"
      When I make 3 steps
      Then the history should be the events of all steps in order
      And the conversation should be the fold of its events

  # Rule: 状态不可变性
  Rule: A step returns a new state and changes none

    Scenario: The state before a step stays what it was
      Given an agent with the tool "calculator" that returns {"result": 42}
      When I make a step with the call "call_123" of "calculator" with {"expression": "2+2"}
      Then the state before the step should be what it was
      And the new state should be another one

    Scenario: A state cannot be changed
      When I create an initial state for the session "test-session" with the message "Hello world" of the user
      Then it should be impossible to change the state, its messages or its history

  # Rule: 错误处理
  Rule: Errors become events and are not raised

    Scenario Outline: Something fails
      Given an agent in which <what> fails with "boom"
      When I make a step
      Then the events should be "error"
      And the error message should contain "boom"
      And the status should be "error"

      Examples:
        | what        |
        | the runner  |
        | an executor |
        | the model   |
        | a tool      |

  # Rule: 会话隔离
  Rule: Every state has a session id of its own

    Scenario: States without a session id are given one
      When I create 2 initial states without a session id
      Then each should have a session id of its own

    Scenario: Conversations at the same time stay apart
      Given an agent with the tool "calculator" that returns {"result": 42}
      When I make steps of 2 sessions at the same time
      Then each session should have its own events and messages
