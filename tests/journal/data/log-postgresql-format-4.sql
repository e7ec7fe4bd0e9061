CREATE TABLE consumers (
    topic text NOT NULL COLLATE pg_catalog."C",
    client_id text NOT NULL COLLATE pg_catalog."C",
    cursor bigint NOT NULL,
    seen_at bigint NOT NULL
);
CREATE TABLE feed (
    topic text NOT NULL COLLATE pg_catalog."C",
    first_cursor bigint NOT NULL,
    count bigint NOT NULL,
    segments bytea NOT NULL,
    digest bytea NOT NULL,
    sealed bytea,
    place bigint NOT NULL
);
ALTER TABLE feed ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME feed_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE log (
    is_only boolean DEFAULT true NOT NULL,
    application text NOT NULL,
    format integer NOT NULL,
    "position" bigint NOT NULL,
    writer text NOT NULL,
    CONSTRAINT log_is_only_check CHECK (is_only)
);
CREATE TABLE redactions (
    stream text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    seal bytea NOT NULL
);
CREATE TABLE requests (
    id text NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    note bytea NOT NULL,
    at bigint NOT NULL,
    proof bytea
);
CREATE TABLE stored_events (
    notification_id bigint NOT NULL,
    originator_id text NOT NULL COLLATE pg_catalog."C",
    originator_version bigint NOT NULL,
    topic text NOT NULL,
    state bytea NOT NULL,
    digest bytea NOT NULL
);
CREATE TABLE stored_snapshots (
    originator_id text NOT NULL COLLATE pg_catalog."C",
    originator_version bigint NOT NULL,
    topic text NOT NULL,
    state bytea NOT NULL
);
CREATE TABLE timers (
    stream text NOT NULL COLLATE pg_catalog."C",
    due bigint NOT NULL
);
CREATE TABLE tracking (
    application_name text NOT NULL COLLATE pg_catalog."C",
    notification_id bigint NOT NULL
);
INSERT INTO consumers VALUES ('ses_1', 'phone', 3, 1700000000000004);
INSERT INTO consumers VALUES ('ses_2', 'desk', 7, 1700000000000005);
INSERT INTO consumers VALUES ('ses_2', 'phone', 6, 1700000000000006);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_1', 1, 2, '\x919281a56167656e74a261319293a4736169640081a4776f7264a568656c6c6f93a4736169640181a4776f7264a5776f726c64', '\x6460c0e6a6adb1491cee9e85a230a5f7df5e260eca1f79454f9ccae404056151', NULL, 1);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_1', 3, 1, '\x919281a56167656e74a261329193a4736169640081a4776f7264a3627965', '\x61749cccce60c7a350f39cd5c0c053a432de50930eeaa42a8f4a79f48b103e91', NULL, 2);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_1', 4, 1, '\x919281a56167656e74a261319193a4736169640081a4776f7264a46d6f7265', '\x400272fc8b4488d9eed0180ac6ce7cfbb97ee118179ddbea82cffd595f354b1d', NULL, 3);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_2', 1, 2, '\x919281a56167656e74a261319293a4736169640081a4776f7264a16193a4736169640181a4776f7264a162', '\xa3026bb7db19fdabfa900ae18bc2b3b9d6d0fe03534858f10e0f534b9a96a3ef', NULL, 4);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_2', 7, 1, '\x919281a56167656e74a261319193a4736169640081a4776f7264a167', '\x29b30b3106499515e942f303630248dc51eb8da9cf059e074e542b267a1d1080', NULL, 7);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_2', 8, 1, '\x919281a56167656e74a261319193a4736169640081a4776f7264a168', '\x1879ab1ba3a8ce6fbdd2042c33b7409232e67bd10d16804d2a349be73ba14302', NULL, 8);
INSERT INTO feed OVERRIDING SYSTEM VALUE VALUES ('ses_2', 3, 4, '\x919281a56167656e74a261319193a4676f6e650581a4776f7264a3e280a6', '\x8a23ccb0332748e66568ba876bef213ce5e45d74a2857280b0217ba2142c7c7e', '\x948fa8b34941b25a30035a9662ea7eec8d0da4d02b2543be4af390aa5bc730b6', 6);
INSERT INTO log VALUES (true, 'reenact', 4, 4, '4f18aed47ac44b1c91dcb4b90a4c488f');
INSERT INTO redactions VALUES ('ses_1', 2, '\x0f56fa9d900ea4867dec8a7eadff29bd70595aa723c93cd717b79f0b9975712e');
INSERT INTO requests VALUES ('req_1', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x81a16101', 1700000000000001, '\xb6964dca1aa215e7705b05dfad8bb5867fe52bf726af8de4f9ce6a021011c86a');
INSERT INTO requests VALUES ('req_2', '\x', '\x', 1700000000000003, '\x57ba69821f72ac1316af27b43c5c5af6668ad1f395b53c78048154b4e29ddaed');
INSERT INTO stored_events VALUES (1, 'ses_1', 1, 'added:1', '\x92cf00060a24181e40009201a36f6e65', '\x99abada5b8cf0a8e5e10faf0d9c228f2efabf29b379d888751f288e55266f2ca');
INSERT INTO stored_events VALUES (2, 'ses_1', 2, 'added:1', '\x92cf00060a24181e40009202ac7a77656920e2809320e4ba8c', '\x36e6a2e2db92ced899b475c8605d7227582812af8c6358b1701df0485155f1f5');
INSERT INTO stored_events VALUES (3, 'ses_2', 1, 'added:1', '\x92cf00060a24181e400192d3ffffff0000000000a0', '\xfa2f3ec10b85c20b043c4d31bf539ad3f49308dce282546fc53db78b401d292a');
INSERT INTO stored_events VALUES (4, 'ses_1', 3, 'cleared:1', '\x92cf00060a24181e400290', '\x4e8378b75d7c19d77ca4da9e29fe16d773323da776eff4e0500fe3a43d8cc219');
INSERT INTO stored_snapshots VALUES ('ses_1', 3, 'sum:1', '\x930001ff');
INSERT INTO timers VALUES ('ses_1', 1700000060000000);
INSERT INTO timers VALUES ('ses_2', 1700000000000500);
SELECT pg_catalog.setval('feed_place_seq', 8, true);
ALTER TABLE ONLY consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (topic, client_id);
ALTER TABLE ONLY feed
    ADD CONSTRAINT feed_pkey PRIMARY KEY (topic, first_cursor);
ALTER TABLE ONLY log
    ADD CONSTRAINT log_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY redactions
    ADD CONSTRAINT redactions_pkey PRIMARY KEY (stream, version);
ALTER TABLE ONLY requests
    ADD CONSTRAINT requests_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stored_events
    ADD CONSTRAINT stored_events_notification_id_key UNIQUE (notification_id);
ALTER TABLE ONLY stored_events
    ADD CONSTRAINT stored_events_pkey PRIMARY KEY (originator_id, originator_version);
ALTER TABLE ONLY stored_snapshots
    ADD CONSTRAINT stored_snapshots_pkey PRIMARY KEY (originator_id, originator_version);
ALTER TABLE ONLY timers
    ADD CONSTRAINT timers_pkey PRIMARY KEY (stream);
ALTER TABLE ONLY tracking
    ADD CONSTRAINT tracking_pkey PRIMARY KEY (application_name);
CREATE INDEX feed_by_place ON feed USING btree (place) WHERE (sealed IS NULL);
CREATE INDEX timers_by_due ON timers USING btree (due, stream);
