Feature: Projections of one's own
  As a developer
  I want tables of my own that follow the log
  So that I can ask what my agents did in the words of my own application

  Background:
    Given a projection that counts the words of the users

  Rule: A projection holds what the log says

    Scenario: What is said is counted
      Given a runtime with the projection
      When a user says "apples and pears" and "apples"
      Then the words should be:
        | apples | 2 |
        | and    | 1 |
        | pears  | 1 |
      And the projection should have come to the end of the log

    Scenario: What was said before the projection came is counted, too
      Given a runtime in which a user has said "apples"
      When the runtime is closed and opened again with the projection
      Then the words should be:
        | apples | 1 |

    Scenario: It goes on after a restart
      Given a runtime with the projection
      And a user has said "apples"
      When the runtime is closed and opened again with the projection
      And a user says "apples"
      Then the words should be:
        | apples | 2 |

  Rule: Each projection is on its own

    Scenario: One cannot take in an event
      Given a runtime with the projection, and with one that cannot take in "pears"
      When a user says "apples" and "pears" and "plums"
      Then the other projection should have stopped before the message "pears"
      And its status should name the event
      And the words should be:
        | apples | 1 |
        | pears  | 1 |
        | plums  | 1 |
      And every message should have its answer

    Scenario: It goes on when it was mended
      Given a runtime with the projection, and with one that cannot take in "pears"
      And a user has said "apples" and "pears"
      And the other projection has stopped
      When it is mended and started again
      Then the other projection should have come to the end of the log

  Rule: Tables are made anew beside those that are read

    Scenario: Nobody is disturbed by a rebuilding
      Given a runtime with the projection
      And a user has said "apples"
      When the projection is rebuilt, while a user says "pears" and looks at the words again and again
      Then every look should have shown all that had been said and taken in until then
      And the words should be:
        | apples | 1 |
        | pears  | 1 |

    Scenario: Progress is told
      Given a runtime with the projection
      And a user has said "apples"
      When the projection is rebuilt
      Then its progress should have been told from nothing to everything

    Scenario: The runtime's own tables are rebuilt
      Given a runtime with the projection
      And a user has said "apples"
      When the runtime's own tables are rebuilt
      Then every message should have its answer

  Rule: Another version makes other tables

    Scenario: A new version counts differently
      Given a runtime with the projection
      And a user has said "apples and apples"
      When the runtime is closed and opened again with a version that counts letters
      Then the former words should be there until the letters are
      And the words should be:
        | apples | 12 |
        | and    | 3  |

  Rule: A mistake is told when the projection is given

    Scenario Outline: A class that cannot work
      When a runtime is opened with a projection that has <mistake>
      Then it should be refused, because of "<reason>"

      Examples:
        | mistake             | reason                      |
        | no name             | has no name                 |
        | no table            | has no tables               |
        | an async function   | the async function          |
        | somebody's event    | which the log does not hold |
        | the name of another | as another has              |
