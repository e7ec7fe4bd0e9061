Feature: Export and import
  As somebody who has to show what an agent did
  I want its history in a file that anybody can read and nobody can change unseen
  So that it can leave the house, without what must not leave, and go on elsewhere

  Background:
    Given a runtime is initialized
    And a container "default" exists
    And an image "chat" exists
    And a session "session-1" exists in container "default" with image "chat"
    And an agent is running from session "session-1"

  Rule: What was exported lives on where it is imported

    Scenario: The conversation is what it was
      Given I send message "Hello" to the agent
      And its turn is over
      When I export the log while it is being written
      And I import the export into a new log
      Then the conversation there should be what it is here
      And the log there should be whole

    Scenario: A session runs on in another log
      Given I send message "Hello" to the agent
      And its turn is over
      When I export the log while it is being written
      And I import the export into a new log
      And I go on in the new log
      Then the agent should answer there

    Scenario: A turn that was under way ends as after a crash
      Given the agent is processing a message
      When I export the log while it is being written
      And I import the export into a new log
      Then its turn should be interrupted there, with the part of the answer that there was

    Scenario: A branch comes along with what it branches off from
      Given I send message "Hello" to the agent
      And its turn is over
      And a session "session-2" branches off from session "session-1"
      And a session "session-3" exists in container "default" with image "chat"
      When I export session "session-2"
      And I import the export into a new log
      Then the sessions there should be "session-1, session-2"
      And session "session-2" should begin with "Hello" there

    Scenario: A session that does not exist cannot be exported
      When I export session "session-9"
      Then it should fail because there is no such session
      And there should be no export

  Rule: What was changed is not believed

    Scenario: A word of the export was changed
      Given I send message "Hello" to the agent
      And its turn is over
      And I have exported the log
      And somebody has changed "Hello" to "Hallo" in the export
      When I import the export into a new log
      Then it should fail because the export was changed
      And there should be no new log

    Scenario: The log goes on while it is exported to
      Given I have exported the log
      When I import the export into the log that is being written
      Then it should fail because the log is being written

    Scenario: The other log has another history
      Given I have exported the log
      And another log has another session "session-1"
      When I import the export into the other log
      Then it should fail because the histories differ

  Rule: What must not leave stays

    Scenario: An API key that was pasted does not leave
      Given I send message "Use sk-ant-api03-abcdefghijkl" to the agent
      And its turn is over
      When I export the log without secrets
      Then "sk-ant-api03-abcdefghijkl" should be nowhere in the export
      When I import the export into a new log
      Then the log there should be whole
      And session "session-1" should begin with "Use [redacted: api-key]" there

    Scenario: What users said does not leave
      Given I send message "My name is Ada" to the agent
      And its turn is over
      When I export the log without "message-accepted.content"
      Then "Ada" should be nowhere in the export
      When I import the export into a new log
      Then the log there should be whole
