Feature: Keeping secrets, and forgetting
  As somebody who answers for what people tell an agent
  I want the log to be readable only with a key, and to make a session unreadable for good
  So that a stolen file tells nothing, and who asks to be forgotten is

  Background:
    Given a log that is opened with a key ring
    And a session in which "The code is pineapple" was said, a tool was called with it, and it was answered

  Rule: Nothing that was said stands in any file

    Scenario: While the log is written
      Then "pineapple" should stand in none of the files

    Scenario: After a crash
      When the process is killed and the log opened again
      Then "pineapple" should stand in none of the files
      And the session should be as it was

    Scenario: With the key ring the log is as ever
      When the log is closed and opened again
      Then the session should be as it was
      And the log should be as it was written, and be decided the same

    Scenario: Without the key ring it can be verified, and not read
      When the log is closed
      Then without the key ring it should be found to be as it was written
      And without the key ring no one should be able to read what was said

    Scenario: A key ring that was rotated reads what there was
      When the key ring gets a new key
      And the log is closed and opened again
      Then the session should be as it was

    Scenario: The key ring of another log
      When the log is closed
      Then the key ring of another log should be refused

  Rule: A session that is forgotten can be read by nobody

    Scenario: What is left of it
      When "ada" forgets the session, since it was "asked for"
      Then the session should be listed as forgotten by "ada", since it was "asked for"
      And whatever is asked of the session should be refused, since it was forgotten
      And who follows the session should hear only that it was forgotten

    Scenario: In a copy that is made afterwards
      When "ada" forgets the session, since it was "asked for"
      And the log is copied
      Then in the copy the session should be forgotten, and its key be in none of the files

    Scenario: The chain holds
      When "ada" forgets the session, since it was "asked for"
      Then the log should have the same digests as before, and be as it was written
      And an audit should count what can be read by nobody, and find nothing else

    Scenario: An agent that is at work is stopped first
      Given the session has an agent that is answering
      When "ada" forgets the session, since it was "asked for"
      Then the turn should have ended as interrupted
      And no agent should be live

    Scenario: Other sessions go on
      Given another session in which "Good night" was said
      When "ada" forgets the session, since it was "asked for"
      Then the other session should be as it was, and go on

    Scenario: Its id is never used again
      When "ada" forgets the session, since it was "asked for"
      Then no session should be made with its id

    Scenario: It is forgotten once
      When "ada" forgets the session, since it was "asked for"
      And "bob" forgets the session, since it was "asked for again"
      Then the session should be listed as forgotten by "ada", since it was "asked for"

    Scenario: After a crash while it is forgotten
      When the process is killed at each commit while "ada" forgets the session
      Then each time the session should be readable, deleted or forgotten, and the log as it was written
      And forgetting it once more should do it

  Rule: What others rest on is forgotten with them, or not at all

    Scenario: A branch
      Given a branch of the session
      When "ada" forgets the session, since it was "asked for"
      Then that should be refused, naming the branch
      And the session should be as it was

    Scenario: A family
      Given a branch of the session
      When "ada" forgets the session with its family
      Then both should be listed as forgotten by "ada"

  Rule: Only what was encrypted can be forgotten

    Scenario: A session from before the key ring
      Given a session that was recorded without a key ring
      When "ada" forgets that session
      Then that should be refused, since it is not encrypted

  Rule: Exports keep what the log keeps

    Scenario: An export is encrypted, and taken in with the same key ring
      When the log is exported
      Then "pineapple" should not stand in the export
      And another log should take it in, with the same key ring, and have the session as it was
      And without the key ring it should not be taken in

    Scenario: An export with a redaction can be read by anybody
      When the log is exported without secrets
      Then "pineapple" should stand in the export
      And another log should take it in, and be found to be as it was exported

    Scenario: What was forgotten stays so
      Given another log has taken in an export of the session
      When "ada" forgets the session, since it was "asked for"
      And the other log takes in another export
      Then in the other log the session should be forgotten, too
