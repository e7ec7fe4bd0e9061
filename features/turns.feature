Feature: Turns
  As a developer
  I want every message to be answered in one turn whose events come in one order
  So that I can show an answer while it grows and know when it is over

  Background:
    Given a runtime is initialized
    And a container "default" exists
    And an image "chat" exists
    And a session "session-1" exists in container "default" with image "chat"
    And an agent is running from session "session-1"

  Rule: The events of a turn come in one order

    Scenario: A message is answered with text
      When I send message "Hello" to the agent
      Then I should hear, from the question on:
        | user_message        | Hello                  |
        | turn_started        |                        |
        | agent_state_changed | idle to thinking       |
        | message_start       |                        |
        | agent_state_changed | thinking to responding |
        | text_delta          | "Hello"                |
        | text_delta          | " from"                |
        | text_delta          | " mock!"               |
        | message_stop        | end_turn               |
        | assistant_message   | Hello from mock!       |
        | agent_state_changed | responding to idle     |
        | turn_completed      | completed              |

    Scenario: The model fails before it has said anything
      Given mock driver scenario is "error"
      When I send message "Hello" to the agent
      Then I should hear, from the question on:
        | user_message        | Hello               |
        | turn_started        |                     |
        | agent_state_changed | idle to thinking    |
        | message_start       |                     |
        | error               | Rate limit exceeded |
        | error_message       | Rate limit exceeded |
        | agent_state_changed | thinking to error   |
        | turn_completed      | failed              |

    Scenario: The model fails in the middle of its answer
      Given mock driver scenario is "breaking-off"
      When I send message "Hello" to the agent
      Then I should hear, from the question on:
        | user_message        | Hello                  |
        | turn_started        |                        |
        | agent_state_changed | idle to thinking       |
        | message_start       |                        |
        | agent_state_changed | thinking to responding |
        | text_delta          | "Half an"              |
        | error               | The line broke         |
        | assistant_message   | Half an                |
        | error_message       | The line broke         |
        | agent_state_changed | responding to error    |
        | turn_completed      | failed                 |

    Scenario: The turn is interrupted in the middle of its answer
      Given the agent is processing a message
      When I interrupt the agent
      Then I should hear, from the question on:
        | user_message        | Tell me a story        |
        | turn_started        |                        |
        | agent_state_changed | idle to thinking       |
        | message_start       |                        |
        | agent_state_changed | thinking to responding |
        | text_delta          | "Once upon"            |
        | interrupted         | user                   |
        | assistant_message   | Once upon              |
        | agent_state_changed | responding to idle     |
        | turn_completed      | interrupted            |

    Scenario: The turn is interrupted before anything was said
      Given the agent is processing a message and has said nothing yet
      When I interrupt the agent
      Then I should hear, from the question on:
        | user_message        | Tell me a story  |
        | turn_started        |                  |
        | agent_state_changed | idle to thinking |
        | message_start       |                  |
        | interrupted         | user             |
        | agent_state_changed | thinking to idle |
        | turn_completed      | interrupted      |

    Scenario: The agent is destroyed in the middle of its answer
      Given the agent is processing a message
      When I destroy the agent
      Then I should hear, from the question on:
        | user_message        | Tell me a story        |
        | turn_started        |                        |
        | agent_state_changed | idle to thinking       |
        | message_start       |                        |
        | agent_state_changed | thinking to responding |
        | text_delta          | "Once upon"            |
        | interrupted         | destroyed              |
        | assistant_message   | Once upon              |
        | agent_state_changed | responding to idle     |
        | turn_completed      | interrupted            |
        | agent_state_changed | idle to stopped        |
        | agent_stopped       | destroyed              |

    Scenario: The session is deleted in the middle of an answer, and a message waits
      Given the agent is processing a message and has said nothing yet
      And I send message "And then?" to the agent
      When I delete the session
      Then I should hear, from the question on:
        | user_message        | Tell me a story  |
        | turn_started        |                  |
        | agent_state_changed | idle to thinking |
        | message_start       |                  |
        | user_message        | And then?        |
        | interrupted         | deleted          |
        | agent_state_changed | thinking to idle |
        | turn_completed      | interrupted      |
        | turn_completed      | interrupted      |
        | agent_state_changed | idle to stopped  |
        | agent_stopped       | deleted          |
        | session_deleted     |                  |

  Rule: Every turn is completed exactly once

    Scenario Outline: A turn that ends by itself
      Given mock driver scenario is "<scenario>"
      When I send message "Hello" to the agent
      Then its turn should be completed once, as <outcome>

      Examples:
        | scenario         | outcome   |
        | default          | completed |
        | with-thinking    | completed |
        | with-tool        | completed |
        | with-tool-use    | completed |
        | error            | failed    |
        | rate-limit-error | failed    |
        | breaking-off     | failed    |

    Scenario Outline: A turn that something ends
      Given the agent is processing a message
      When <what happens>
      Then its turn should be completed once, as interrupted

      Examples:
        | what happens                |
        | I interrupt the agent       |
        | I interrupt the agent twice |
        | I destroy the agent         |
        | I destroy the agent twice   |
        | I delete the session        |
        | I close the runtime         |

    Scenario: A session that was deleted runs no more
      When I delete the session
      Then it should not run, nor be read, nor be deleted again

    Scenario: Interrupting an idle agent does nothing
      When I interrupt the agent
      Then it should complete without error
      And I should have heard of no turn

    Scenario: An agent that failed takes the next message
      Given mock driver scenario is "error"
      And I send message "Hello" to the agent
      And its turn is over
      And the agent is in state "error"
      When mock driver scenario is "default"
      And I send message "Again" to the agent
      Then its turn should be completed once, as completed
      And the agent should be in state "idle"

  Rule: The events of a session are numbered from 1, without holes

    Scenario: Two turns are heard
      Given I send message "One" to the agent
      And its turn is over
      When I send message "Two" to the agent
      And its turn is over
      Then the events of the session should be numbered from 1, without holes
      And the first of them should be "session_created"

    Scenario: Turns end in every way
      Given mock driver scenario is "breaking-off"
      And I send message "One" to the agent
      And its turn is over
      And the agent is processing a message
      And I send message "And then?" to the agent
      When I destroy the agent
      And I delete the session
      Then the events of the session should be numbered from 1, without holes
      And the last of them should be "session_deleted"

  Rule: Messages wait in line for a busy agent

    Scenario: Messages are taken up in the order they came
      Given the agent is processing a message
      And mock driver scenario is "attentive"
      And I send message "One" to the agent
      And I send message "Two" to the agent
      And 2 messages wait for the agent
      When I interrupt the agent
      Then 3 turns should be completed, in the order of their questions
      And the conversation should be:
        | user      | Tell me a story                                   |
        | assistant | Once upon                                         |
        | user      | One                                               |
        | assistant | You said: Tell me a story, One (answered: 1)      |
        | user      | Two                                               |
        | assistant | You said: Tell me a story, One, Two (answered: 2) |

    Scenario: What waited is taken up when the session is run again
      Given the agent is processing a message
      And mock driver scenario is "attentive"
      And I send message "One" to the agent
      And I send message "Two" to the agent
      And I destroy the agent
      When I run the session again
      Then 3 turns should be completed, in the order of their questions
      And the conversation should be:
        | user      | Tell me a story                                   |
        | assistant | Once upon                                         |
        | user      | One                                               |
        | assistant | You said: Tell me a story, One (answered: 1)      |
        | user      | Two                                               |
        | assistant | You said: Tell me a story, One, Two (answered: 2) |

    Scenario: A question that waits stands behind the answer before it
      Given the agent is processing a message
      When I send message "One" to the agent
      Then the conversation should be:
        | user | Tell me a story |
        | user | One             |

    Scenario Outline: A message that says nothing is refused
      When I send the agent <nothing>
      Then it should be refused as an invalid message
      And I should have heard of no turn

      Examples:
        | nothing          |
        | an empty text    |
        | only white space |

  Rule: What was said before a turn was cut short is kept, and marked

    Scenario: After an interrupt
      Given the agent is processing a message
      When I interrupt the agent
      Then the last answer should be "Once upon", in part, because of "interrupted"

    Scenario: After an error
      Given mock driver scenario is "breaking-off"
      When I send message "Hello" to the agent
      And its turn is over
      Then the last answer should be "Half an", in part, because of "error"

    Scenario: A whole answer is not marked
      When I send message "Hello" to the agent
      And its turn is over
      Then the last answer should be "Hello from mock!", whole, because of "end_turn"

    Scenario: No answer is kept when nothing was said
      Given the agent is processing a message and has said nothing yet
      When I interrupt the agent
      Then the conversation should be:
        | user | Tell me a story |
