CREATE TABLE log (
        is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
        application text NOT NULL,
        format integer NOT NULL,
        number bigint NOT NULL,
        position bigint NOT NULL,
        writer text NOT NULL
    );
CREATE TABLE steps (
        number bigint PRIMARY KEY,
        stream text COLLATE "C" NOT NULL,
        recorded_at bigint NOT NULL,
        version bigint,
        position bigint,
        count bigint NOT NULL,
        cursor bigint,
        heard bigint NOT NULL,
        key text,
        epoch bigint NOT NULL DEFAULT 0,
        digest bytea NOT NULL,
        original bytea,
        seal bytea,
        cause bytea,
        events bytea,
        feed bytea
    );
CREATE UNIQUE INDEX steps_by_version ON steps (stream, version) WHERE version IS NOT NULL;
CREATE UNIQUE INDEX steps_by_cursor ON steps (stream, cursor) WHERE cursor IS NOT NULL;
CREATE UNIQUE INDEX steps_by_position ON steps (position) WHERE position IS NOT NULL;
CREATE TABLE stored_snapshots (
        originator_id text COLLATE "C" NOT NULL,
        originator_version bigint NOT NULL,
        topic text NOT NULL,
        state bytea NOT NULL,
        PRIMARY KEY (originator_id, originator_version)
    );
CREATE TABLE tracking (
        application_name text COLLATE "C" PRIMARY KEY,
        notification_id bigint NOT NULL
    );
CREATE TABLE timers (
        stream text COLLATE "C" PRIMARY KEY,
        due bigint NOT NULL
    );
CREATE INDEX timers_by_due ON timers (due, stream);
CREATE TABLE consumers (
        topic text COLLATE "C" NOT NULL,
        client_id text COLLATE "C" NOT NULL,
        cursor bigint NOT NULL,
        seen_at bigint NOT NULL,
        PRIMARY KEY (topic, client_id)
    );
CREATE TABLE requests (
        id text COLLATE "C" PRIMARY KEY,
        digest bytea NOT NULL,
        note bytea NOT NULL,
        at bigint NOT NULL,
        proof bytea NOT NULL
    );
INSERT INTO log VALUES (True, 'reenact log', 1, 7, 5, 'bffde2f715c44142a67de9004ac761c6');
INSERT INTO steps VALUES (1, 'ses_1', 1700000000000000, 1, 1, 2, 1, 2, NULL, 0, '\x3034bf2e66e3af4064b7b1e1d43b75d89e58618b857a4513928f637d07779a99', NULL, NULL, '\x81a16101', '\x9292a761646465643a31c41092cf00060a24181e40009201a36f6e6592a761646465643a31c41992cf00060a24181e40009202ac7a77656920e2809320e4ba8c', '\x919281a56167656e74a261319293a4736169640081a4776f7264a568656c6c6f93a4736169640181a4776f7264a5776f726c64');
INSERT INTO steps VALUES (2, 'ses_1', 1700000000000001, NULL, NULL, 0, 3, 2, NULL, 0, '\xed6859cccab578edf1942580c8b2264ca4bb974f1b23d2d0d104bf42dfbabb80', NULL, NULL, NULL, NULL, '\x919281a56167656e74a261319293a4736169640081a4776f7264a2646593a4736169640181a4776f7264a36c7461');
INSERT INTO steps VALUES (3, 'ses_2', 1700000000000001, 1, 3, 1, NULL, 0, NULL, 0, '\x670fe4c87da19f370aaa7eb2b0a285fd68cb9402602976d2bb0d3b289262bd29', NULL, NULL, NULL, '\x9192a761646465643a31c41592cf00060a24181e400192d3ffffff0000000000a0', NULL);
INSERT INTO steps VALUES (4, 'ses_1', 1700000000000002, 3, 4, 1, 5, 1, NULL, 0, '\xf28ae7201170c0bddbbab946bc139321d1d5dc32a37fd5de9f13846a2373617c', NULL, NULL, NULL, '\x9192a9636c65617265643a31c40b92cf00060a24181e400290', '\x919281a56167656e74a261329193a4736169640081a4776f7264a3627965');
INSERT INTO steps VALUES (5, 'ses_2', 1700000000000004, 2, 5, 1, 1, 6, NULL, 0, '\x61c464929c4d19cec8c4cf2e0394b120044a547f02ff339957bbdcd70b9715af', '\x1823f28a33a6ccaebac5551cc5b10a6715538877ba426ab189a933c83365b1260000000000000000000000000000000000000000000000000000000000000000121dbccbdaf5758d5f5fa95fc2e6ccaada98251c43511c23b66d7d969a9f180be9dc36fb29f283a14668d90dc163229d12ac25ee9013568dffeb241ec87cd54400000000000000050000000000000002', '\xd4ebe26f802abeb04b3e3cfc0fe7cd7e16de1be55012f1d42e50ddacdda047c1', NULL, '\x9192a761646465643a31c41e92cf00060a24181e40049203b15b72656461637465643a2076616c75655d', '\x919281a56167656e74a261319193a4676f6e650581a4776f7264a3e280a6');
INSERT INTO steps VALUES (6, 'ses_2', 1700000000000005, NULL, NULL, 0, 7, 1, NULL, 0, '\xec6823fc2b29802d5e14b24c6d5e48b35d2dec16593b62ffbe377abb59cb0002', NULL, NULL, NULL, NULL, '\x919281a56167656e74a261319193a4736169640081a4776f7264a167');
INSERT INTO steps VALUES (7, 'ses_2', 1700000000000006, NULL, NULL, 0, 8, 1, NULL, 0, '\xf289a6199ff6819cc3e7ca74a13898a9e96890f56157eb88ada2249a70d71f01', NULL, NULL, NULL, NULL, '\x919281a56167656e74a261319193a4736169640081a4776f7264a168');
INSERT INTO stored_snapshots VALUES ('ses_1', 3, 'sum:1', '\x930001ff');
INSERT INTO timers VALUES ('ses_1', 1700000060000000);
INSERT INTO timers VALUES ('ses_2', 1700000000000500);
INSERT INTO consumers VALUES ('ses_1', 'phone', 3, 1700000000000004);
INSERT INTO consumers VALUES ('ses_2', 'desk', 7, 1700000000000005);
INSERT INTO requests VALUES ('req_1', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x81a16101', 1700000000000001, '\xb6964dca1aa215e7705b05dfad8bb5867fe52bf726af8de4f9ce6a021011c86a');
