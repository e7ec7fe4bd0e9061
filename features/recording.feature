Feature: Recordings
  As a developer
  I want to keep what a model said, and to hear it again without the model
  So that my tests are fast and free, and what I saw once I can see again

  Rule: What was recorded is heard again, without whoever said it

    Scenario Outline: An answer is heard again
      Given mock driver scenario is "<scenario>"
      And I have recorded the question "Hello"
      When I ask "Hello" of the recording
      Then I should hear what I heard when it was recorded
      And the mock should not have been asked again

      Examples:
        | scenario         |
        | default          |
        | with-thinking    |
        | with-tool        |
        | with-tool-use    |
        | error            |
        | rate-limit-error |
        | long-stream      |

    Scenario: A conversation of several turns is heard again
      Given mock driver scenario is "attentive"
      And I have recorded the questions "One", "Two" and "Three"
      When I ask "One", "Two" and "Three" of the recording
      Then I should hear what I heard when it was recorded
      And the conversation should be:
        | user      | One                                     |
        | assistant | You said: One (answered: 0)             |
        | user      | Two                                     |
        | assistant | You said: One, Two (answered: 1)        |
        | user      | Three                                   |
        | assistant | You said: One, Two, Three (answered: 2) |

    Scenario: A tool is not run again
      Given a model that asks for a tool and says what came of it
      And I have recorded the question "What is the weather?"
      When I ask "What is the weather?" of the recording
      Then I should hear what I heard when it was recorded
      And the tool should have run once

    Scenario: An interrupted answer waits for its interrupt
      Given mock driver scenario is "endless"
      And I have recorded the question "Hello", interrupted after "Once upon"
      When I ask "Hello" of the recording and interrupt it after "Once upon"
      Then I should hear what I heard when it was recorded

  Rule: A question that was not recorded fails, and says so

    Scenario: Another question
      Given I have recorded the question "Hello"
      When I ask "Goodbye" of the recording
      Then the turn should fail with "recording_mismatch"
      And the failure should name "Goodbye" and "Hello"

    Scenario: The same question once more
      Given I have recorded the question "Hello"
      When I ask "Hello" of the recording in two sessions
      Then the turn should fail with "recording_mismatch"
      And the failure should name "repeat=True"

  Rule: A recording outlives the process

    Scenario: A session goes on with the recording after a restart
      Given mock driver scenario is "attentive"
      And I have recorded the questions "One", "Two" and "Three"
      And I have asked "One" of the recording
      When the runtime is closed and opened again with the recording
      And I ask "Two" and "Three"
      Then the conversation should be:
        | user      | One                                     |
        | assistant | You said: One (answered: 0)             |
        | user      | Two                                     |
        | assistant | You said: One, Two (answered: 1)        |
        | user      | Three                                   |
        | assistant | You said: One, Two, Three (answered: 2) |

    Scenario: What is not a recording is refused
      Given a file that is not a recording
      When I open it as a recording
      Then it should be refused as no recording
