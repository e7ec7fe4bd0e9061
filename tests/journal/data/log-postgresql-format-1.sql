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
        version bigint NOT NULL,
        position bigint NOT NULL,
        count bigint NOT NULL,
        cursor bigint NOT NULL,
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
CREATE UNIQUE INDEX steps_by_stream ON steps (stream, version, cursor);
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
INSERT INTO log VALUES (True, 'reenact: a log', 1, 7, 5, '22e7b30b6b394d7285368fbdd5e2050b');
INSERT INTO steps VALUES (1, 'ses_1', 1700000000000000, 1, 1, 2, 1, 2, NULL, 0, '\xd776d1e77b2639491e9f96dc71618fdd7a930087e2ceb9923c50482e76e9569e', NULL, NULL, '\x81a16101', '\x9292a761646465643a31c41892cf00060a24181e40009201ab68656c6c6f20776f726c6492a761646465643a31c41992cf00060a24181e40009202ac7a77656920e2809320e4ba8c', '\x91919281a56167656e74a261319293a4736169640081a4776f7264a568656c6c6f93a4736169640181a4776f7264a620776f726c64');
INSERT INTO steps VALUES (2, 'ses_1', 1700000000000001, 3, 3, 0, 3, 2, NULL, 0, '\xeb6bd7d42551dcf536b8b1c5c9564c900a7e5bf5c64c2fdfd6666933de471eee', NULL, NULL, NULL, NULL, '\x91919281a56167656e74a261319193aa746578745f64656c746192cf00060a24181e40000192a26465a36c7461');
INSERT INTO steps VALUES (3, 'ses_2', 1700000000000001, 1, 3, 1, 1, 0, NULL, 0, '\x670fe4c87da19f370aaa7eb2b0a285fd68cb9402602976d2bb0d3b289262bd29', NULL, NULL, NULL, '\x9192a761646465643a31c41592cf00060a24181e400192d3ffffff0000000000a0', NULL);
INSERT INTO steps VALUES (4, 'ses_1', 1700000000000002, 3, 4, 1, 5, 1, NULL, 0, '\xa4f86b0775b563d066d1b3725fb8433ab9048651dfd55d854697de303370cbbb', NULL, NULL, NULL, '\x9192a9636c65617265643a31c40b92cf00060a24181e400290', '\x93900181a56167656e74a26132');
INSERT INTO steps VALUES (5, 'ses_2', 1700000000000004, 2, 5, 1, 1, 5, NULL, 0, '\xd57b4a63d33f6c24c2038fb036e44bd7e4809f1d06c4b0c1cc9b54ce00f4a750', '\x642d91e3bf18d0693174c3cfd6e98f80a4f846a804f8d0743781e61c0b9414370000000000000000000000000000000000000000000000000000000000000000121dbccbdaf5758d5f5fa95fc2e6ccaada98251c43511c23b66d7d969a9f180bed350948700dffbf94ea0bc3972ebb530a5c3f5337eadd3935616d9047c6b99d00000000000000050000000000000001', '\x6d7a550528f850422eb9fd600d8cff57073a9601660a448afffb69ba74b09e71', NULL, '\x9192a761646465643a31c41e92cf00060a24181e40049203b15b72656461637465643a2076616c75655d', '\x93919281a56167656e74a261319193a4676f6e650581a4776f7264a3e280a60181a56167656e74a26131');
INSERT INTO steps VALUES (6, 'ses_2', 1700000000000005, 3, 6, 0, 6, 1, NULL, 0, '\x4df0cdb3236561d26800ae48934d8b92d7d65777e8dc28a308b212449931c9e3', NULL, NULL, NULL, NULL, '\x91919281a56167656e74a261319193a4736169640081a4776f7264a167');
INSERT INTO steps VALUES (7, 'ses_2', 1700000000000006, 3, 6, 0, 7, 1, NULL, 0, '\x7741732ef215421f52d1c29f86585a83f8252b456cf9c29ca4184e0b6837095d', NULL, NULL, NULL, NULL, '\x91919281a56167656e74a261319193a4736169640081a4776f7264a168');
INSERT INTO stored_snapshots VALUES ('ses_1', 3, 'sum:1', '\x930001ff');
INSERT INTO timers VALUES ('ses_1', 1700000060000000);
INSERT INTO timers VALUES ('ses_2', 1700000000000500);
INSERT INTO consumers VALUES ('ses_1', 'phone', 3, 1700000000000004);
INSERT INTO consumers VALUES ('ses_2', 'desk', 6, 1700000000000005);
INSERT INTO requests VALUES ('req_1', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f', '\x81a16101', 1700000000000001, '\xb6964dca1aa215e7705b05dfad8bb5867fe52bf726af8de4f9ce6a021011c86a');
