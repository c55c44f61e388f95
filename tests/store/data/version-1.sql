BEGIN TRANSACTION;
CREATE TABLE chunks (
        upload TEXT NOT NULL,
        number INTEGER NOT NULL,
        start INTEGER NOT NULL,
        size INTEGER NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (upload, number, start),
        FOREIGN KEY (upload, number) REFERENCES files (upload, number) ON DELETE CASCADE
    ) WITHOUT ROWID;
INSERT INTO "chunks" VALUES('f96498855874c02e',0,0,3,'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
CREATE TABLE comparisons (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        created TEXT NOT NULL,
        finished TEXT,
        sides TEXT NOT NULL,
        options TEXT NOT NULL,
        edits TEXT NOT NULL,
        run INTEGER NOT NULL,
        shown INTEGER,
        owner TEXT,
        progress TEXT,
        outcome TEXT,
        error TEXT
    );
INSERT INTO "comparisons" VALUES(1,'1fc907b16a10','before the fix','pair','done','2026-11-16T00:53:08.619166Z','2026-11-16T00:53:08.632282Z','{"reference": {"label": "ref", "path": "/runs/ref", "upload": null}, "candidate": {"label": "dump", "path": null, "upload": "f96498855874c02e"}}','{"atol": 0.5, "rtol": null, "equal_nan": false, "tolerances": null, "allow_missing": false, "allow_extra": false, "layer_offset": 0, "layout": "auto", "accept_layout": [], "isolate": false}','{"pairs": [{"reference": "a", "candidate": "b"}], "dropped": [{"reference": "c", "candidate": "d"}], "layouts": [{"key": "a", "recipe": "a b -> b a"}], "layer_offset": 3}',2,2,NULL,NULL,'{"verdict": "mismatch", "summary": {"match": 1, "mismatch": 2, "missing": 0, "extra": 0, "failed": 0, "elements": 7, "coverage": 1.0}, "first": "First divergence: x", "tensors": {"reference": 3, "candidate": 3}}',NULL);
INSERT INTO "comparisons" VALUES(2,'e3cf57c53c74','ref','look','running','2026-11-16T00:53:08.635782Z',NULL,'{"reference": {"label": "ref", "path": "/runs/ref", "upload": null}}','{}','{"pairs": [], "dropped": [], "layouts": [], "layer_offset": 0}',1,NULL,'dead-server',NULL,NULL,NULL);
CREATE TABLE files (
        upload TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        name TEXT NOT NULL,
        size INTEGER NOT NULL,
        have INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (upload, number)
    ) WITHOUT ROWID;
INSERT INTO "files" VALUES('f96498855874c02e',0,'dump/x.npy',3,3);
CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        created TEXT NOT NULL
    );
INSERT INTO "uploads" VALUES('f96498855874c02e','2026-11-16T00:53:08.617607Z');
CREATE INDEX comparisons_by_state ON comparisons (state, number);
COMMIT;
PRAGMA user_version = 1;
