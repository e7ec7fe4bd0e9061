Feature: Who answers
  As a person at a terminal
  I want to say which model answers me, and where it is
  So that I can talk to one of my own as I do to Claude

  Background:
    Given a provider of my own, "friends:Friend", which says "Hello from a friend"

  Rule: The command line, the environment and my settings say who answers, in this order

    Scenario: I name a provider on the command line
      When I ask "Hello" with "--provider friends:Friend"
      Then the answer is "Hello from a friend"

    Scenario: I name a provider in the environment
      Given the variable REENACT_PROVIDER is "friends:Friend"
      When I ask "Hello"
      Then the answer is "Hello from a friend"

    Scenario: I name a provider in my settings
      Given my settings have provider "friends:Friend"
      When I ask "Hello"
      Then the answer is "Hello from a friend"

    Scenario: The command line names another one than my settings
      Given my settings have provider "friends:Friend"
      When I ask "Hello" with "--provider mock"
      Then the answer is "Hello from mock!"

    Scenario: I say where a server of my own is
      Given a server of my own, with the model "qwen3"
      When I ask "Hello" with "--provider openai --base-url SERVER --model qwen3"
      Then the server has answered as "qwen3"

    Scenario: My settings say where a server of my own is
      Given a server of my own, with the model "qwen3"
      And my settings name it
      When I ask "Hello"
      Then the server has answered as "qwen3"

    Scenario: Nobody names a model
      Given a server of my own, with the model "qwen3"
      When I ask "Hello" with "--provider openai --base-url SERVER"
      Then nothing is asked, because of "name yours, with --model, OPENAI_MODEL or `model` in your settings"

    Scenario: A provider that nobody knows
      When I ask "Hello" with "--provider ollama"
      Then nothing is asked, because of "--provider ollama: say"

  Rule: A key goes where I have said, and nowhere else

    Scenario: I say where Claude is
      Given a key for Claude
      When I ask "Hello" with "--provider claude --base-url CLAUDE"
      Then Claude has answered

    Scenario: A project says that somebody else answers, elsewhere
      Given Claude is at its address, and I have its key
      And the project's settings name the provider "openai" and the address of a thief
      When I ask "Hello"
      Then Claude has answered
      And the thief has heard nothing
      And I am warned that "provider, baseUrl: a project may not say who answers, or where keys are sent"

    Scenario: A project has a file of variables
      Given Claude is at its address, and I have its key
      And the project has a ".env" that sends every key to a thief
      When I ask "Hello"
      Then Claude has answered
      And the thief has heard nothing

    Scenario: The address in my settings is for the provider beside it
      Given Claude is at its address, and I have its key
      And my settings have provider "friends:Friend", and the address of a thief
      When I ask "Hello" with "--provider claude"
      Then Claude has answered
      And the thief has heard nothing

    Scenario: A project says where the server of my own is
      Given a server of my own, with the model "qwen3"
      And my settings name it
      And the project's settings name the provider "openai" and the address of a thief
      And the project has a ".env" that sends every key to a thief
      When I ask "Hello"
      Then the server has answered as "qwen3"
      And the thief has heard nothing

  Rule: Code of the current folder is not run, however the command is started

    Scenario Outline: A project has modules with well-known names
      Given a project with modules that everybody imports
      When I ask "Hello" there, with <command>
      Then the answer is "Hello from a friend"
      And no code of the project has run

      Examples:
        | command          |
        | python -m        |
        | python -c        |
        | the script       |

    Scenario: A project has a module with the name of the library that asks the model
      Given a server of my own, with the model "qwen3"
      And my settings name it
      And a project with modules that everybody imports
      When I ask "Hello" there
      Then the server has answered as "qwen3"
      And no code of the project has run

    Scenario: A project has a provider, too
      Given a project with modules that everybody imports
      When I ask "Hello" there, of the provider "reenact_provider:Provider" of the project
      Then nothing is asked, because of "there is no module 'reenact_provider'"
      And no code of the project has run
