Feature: What if other rules had held
  As somebody who is about to change what agents may do
  I want to hold the new rules against what was recorded
  So that I know which calls they stop, before anybody is stopped

  Background:
    Given an agent that was asked "Please write to Ann", and wants to send a mail
    And Bob has approved the mail, and the agent has answered "Ann has mail"
    And an agent that looked something up three times, and answered

  Rule: Each recorded decision is made again by itself

    Scenario: The rules that were recorded
      When I suppose the policies, limits and prices that held
      Then nothing would be otherwise

    Scenario: A stricter policy
      When I suppose that mails are denied
      Then 1 call would be otherwise
      And the mail was asked about, and would be denied, since "the deny list forbids it"

    Scenario: A policy that lets more run
      When I suppose that mails may always be sent
      Then the mail was asked about, and would run, since "its policy lets it run"

    Scenario: A policy for what always ran
      When I suppose that somebody is asked before anything is looked up
      Then 3 calls would be otherwise

    Scenario: A policy for one image
      When I suppose that the image "clerk" may not send mails
      Then 1 call would be otherwise
      When I suppose that the image "scout" may not send mails
      Then nothing would be otherwise

    Scenario: Another definition of an image
      When I suppose that the image "clerk" has a mail tool that nobody is asked about
      Then the mail was asked about, and would run, since "no policy is set for it"

    Scenario: What a branch shares
      Given a branch of the session in which the mail was sent
      When I suppose that mails are denied
      Then 1 call would be otherwise

  Rule: Limits are looked at where the turn looked at them

    Scenario: Fewer steps
      When I suppose that a turn has at most 2 steps
      Then 1 turn would be otherwise
      And it would be ended by "max_steps_exceeded", since "the limit of 2 steps is reached"

    Scenario: A limit of costs
      When I suppose that a session may cost 5
      Then nothing would be otherwise

    Scenario: A limit of costs, and other prices
      When I suppose that a session may cost 5, and that a token costs 1
      Then 1 turn would be otherwise
      And it would be ended by "cost_limit_exceeded", since "6 were spent, more than the limit of 5"

  Rule: What nobody can say is said

    Scenario: Arguments that were taken out of an export
      Given an export of the log without what mails say
      When I suppose that mails are denied
      Then nothing would be otherwise, but for 1 decision that cannot be made again

    Scenario: Rules that cannot be
      When I suppose policies that cannot be read
      Then I should be told the place: "images.clerk: policies.mail.mode"
