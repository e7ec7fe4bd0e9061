Feature: Structured output
  As a developer
  I want answers that are values of a type of mine
  So that my program can go on with them without reading words

  Background:
    Given a runtime is initialized

  Rule: The answer is the value that I asked for

    Scenario: I ask for a value
      Given the model answers:
        | {"city": "Bergen", "degrees": 7} |
      When I ask "How warm is it?" for a reading
      Then I should be given the reading of 7 degrees in "Bergen"

    Scenario: The image says what its answers are
      Given the model answers:
        | {"city": "Bergen", "degrees": 7} |
      When I ask "How warm is it?" of an image whose answers are readings
      Then I should be given the reading of 7 degrees in "Bergen"

    Scenario: The conversation goes on
      Given the model answers:
        | {"city": "Bergen", "degrees": 7} |
      And I have asked "How warm is it?" of an image whose answers are readings
      When I ask "And now?" in the same session
      Then I should be given the reading of 7 degrees in "Bergen", as JSON has it

    Scenario: I ask for nothing but words
      Given the model answers:
        | Seven degrees. |
      When I ask "How warm is it?" for words
      Then I should be given no value, and the words "Seven degrees."

  Rule: An answer that does not fit is asked for again

    Scenario: The second answer fits
      Given the model answers:
        | It is warm.                      |
        | {"city": "Bergen", "degrees": 7} |
      When I ask "How warm is it?" for a reading
      Then I should be given the reading of 7 degrees in "Bergen"
      And I should have heard that answer 1 was rejected: "the answer is not JSON"
      And the model should have been told: "the answer is not JSON"
      And what I heard of the first answer should be marked as superseded

    Scenario: No answer fits
      Given the model answers:
        | {"city": "Bergen"} |
      When I ask "How warm is it?" for a reading
      Then the turn should have failed with "output_invalid"
      And the model should have been asked 3 times
      And I should be given no value, and the words "{"city": "Bergen"}"

    Scenario: The model refuses
      Given the model refuses with "I would rather not."
      When I ask "How warm is it?" for a reading
      Then I should be given no value, and the words "I would rather not."
      And the model should have been asked 1 times

    Scenario: The answer is cut off
      Given the model is cut off after "{"city":"
      When I ask "How warm is it?" for a reading
      Then I should be given no value, and the words "{"city":"
      And the model should have been asked 1 times

  Rule: What was asked for outlives the process

    Scenario: The process ends while the answer is asked for again
      Given the model answers:
        | It is warm. |
        | (nothing)   |
      And I have asked "How warm is it?" for a reading, and the process ended during the second answer
      When the model answers "{"city": "Bergen", "degrees": 7}" and the runtime goes on
      Then the turn should have the reading of 7 degrees in "Bergen"
      And the audit should find nothing wrong, and decide the same
