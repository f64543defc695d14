#!/usr/bin/env python3
"""Writes the seed inputs of the fuzzers from the transcripts, the images of the tests, the guides and the values below.

    contrib/fuzz/make-corpus.py DIRECTORY

Each fuzzer has a folder with its name in DIRECTORY. To keep an input, add it to the function of its fuzzer.
"""

import base64
import hashlib
import json
import pathlib
import re
import struct
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main(directory):
    for name, seeds in (
        ("json", json_texts()),
        ("lines", lines()),
        ("requests", requests()),
        ("events", events()),
        ("etcd", etcd()),
        ("images", images()),
        ("fields", fields()),
        ("settings", settings()),
        ("template", templates()),
        ("archive", archives()),
        ("damage", damages()),
        ("snapshot", snapshots()),
        ("schema", schemas()),
        ("patterns", patterns()),
        ("names", names()),
        ("backup", backups()),
    ):
        folder = directory / name
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            seed = seed.encode() if isinstance(seed, str) else seed
            (folder / f"seed-{hashlib.sha1(seed).hexdigest()[:10]}").write_bytes(seed)


def sent(limit):
    """Returns the distinct requests of the transcripts that have fewer than `limit` characters."""
    found = {}
    for transcript in sorted((ROOT / "Protocol/transcripts").glob("*.jsonl")):
        for line in transcript.read_text().splitlines():
            text = line[2:]
            if line.startswith("→ ") and text.startswith(("{", "[")) and len(text) < limit:
                found.setdefault(re.sub(r'"id":\d+', '"id":1', text), None)
    return list(found)


DOCUMENTS = [
    '{"search":{"limit":25,"hosts":["a","b"],"on":true,"ratio":0.50,"title":"Gr\u00f6\u00dfe \\"x\\" \\ud83d\\ude00"}}',
    '{"a":1,"b":{"c":[1,2,{"d":null}]},"":{"/":"~"},"a.b":-0}',
    "[1e400,-0.0,12345678901234567890,0.1000,1E-7,true,false,null]",
    '{"a":{"b":null,"c":{"d":1}},"e":[null,{"f":null}],"a":{"b":2}}',
    json.dumps({f"member{index}": index for index in range(40)}),
    "[" * 20 + "]" * 20,
    ' { "x" : [ ] , "y" : { } } ',
]


def json_texts():
    patches = ['{"search":{"limit":null,"new":{"x":null}}}', '{"b":{"c":5}}', '{"a":{"b":null},"e":{"f":1}}', "[]"]
    yield from DOCUMENTS
    for index, document in enumerate(DOCUMENTS):
        yield document + "\0" + patches[index % len(patches)]
        yield document + "\0" + DOCUMENTS[(index + 1) % len(DOCUMENTS)] + "\0" + patches[(index + 1) % len(patches)]
    yield from ('"\\u00e9\\ud800"', '"\\ud834\\udd1e\\b\\f\\n\\r\\t\\/"', b'"\xed\xa0\x80"', b"\xef\xbb\xbf{}", "01", "1.", "{,}")


def lines():
    yield "one\ntwo\r\n\r\n \t\nthree"
    yield "x" * 64 + "\r\n" + "x" * 65 + "\n" + "y" * 7 + "\r\r\n" + "\n"
    yield b"\r\n\x00\xff\n" + b"z" * 70
    yield "\n".join(sent(100)[:5]) + "\n"


def requests():
    yield from sent(300)
    yield '{"params":{"path":"a"},"method":"config.get","id":"x-1"}'
    yield '{"method":"config.get","params":{"id":1},"id":2}'
    yield '{"method":"config.get","x":"\\"id\\":7","id":2}'
    yield '{"id":1,"id":2,"method":"agent.ping"}'
    yield '{"id": 0,"method":"config.get","params":["a.b","default",5,1.5]}'
    yield '{"x":{"id":3},"method":"agent.ping"}'


def events():
    yield 'id: 7\nevent: config\nretry: 1500\ndata: {"a":1}\ndata:\ndata: x\n\n: comment\ndata\n\n'
    yield b'\xef\xbb\xbfdata: a\r\n\r\ndata: b\r\rdata:c\n\n'
    yield "data: 0123456789abcdef0\n\nid\0x: 1\nid: \nretry: 99999999999999999999\nevent:\ndata: end\n\nunfinished"


def etcd():
    def text(value):
        return base64.b64encode(value.encode()).decode()

    pair = {"key": text("/larder/a"), "value": text('{"x":1}'), "mod_revision": "12", "version": "1"}
    header = {"cluster_id": "14841639068965178418", "revision": "12", "raft_term": "2"}
    yield json.dumps({"header": header, "kvs": [pair], "more": True, "count": "1"})
    for result in (
        {"header": header, "created": True, "watch_id": "0"},
        {"header": header, "events": [{"kv": pair}, {"type": "DELETE", "kv": pair}], "fragment": True},
        {"header": header, "canceled": True, "compact_revision": "9", "cancel_reason": "compacted"},
    ):
        yield json.dumps({"result": result}) + "\n" + json.dumps({"result": {"header": header}}) + "\n"


def images():
    encoded = (ROOT / "Tests/TestSupport/Images/EncodedImages.swift").read_text()
    for text in re.findall(r'"""\n(.*?)"""', encoded, re.S):
        image = base64.b64decode("".join(text.split()))
        if len(image) < 2000:
            yield image

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 3, 2, 8, 6, 0, 0, 0)
    yield (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"acTL", struct.pack(">II", 2, 0))
           + chunk(b"IDAT", zlib.compress(bytes(26))) + chunk(b"IEND", b""))
    yield b"GIF89a" + struct.pack("<HHBBB", 4, 3, 0, 0, 0) + b",\0\0\0\0\4\0\3\0\0\2\2D\1\0!\xfe\2hi\0;"
    yield b"BM" + struct.pack("<IHHIIiiHHIIIIII", 58, 0, 0, 54, 40, 1, -1, 1, 24, 0, 4, 0, 0, 0, 0) + bytes(4)
    yield struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, 8, 22) + b"\x89PNG\r\n\x1a\n"
    yield (struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, 8, 22)
           + struct.pack("<IiiHHIIiiII", 124, 1, 2, 1, 8, 0, 0, 0, 0, 2, 0) + bytes(84 + 8 + 8))
    # RLE24 of OS/2: a run, the end of the row, literal pixels.
    yield (b"BM" + struct.pack("<IHHI", 0, 0, 0, 78) + struct.pack("<IiiHHII", 64, 3, 2, 1, 24, 4, 0) + bytes(40)
           + b"\3rgb\0\0\0\3abcdefghi\0")
    yield b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + struct.pack("<I", 10) + b"\x12\0\0\0\x0f\0\0\x0f\0\0" + b"ANIM"
    yield b"RIFF" + struct.pack("<I", 18) + b"WEBPVP8L" + struct.pack("<I", 5) + b"\x2f\x0f\xc0\x03\x10\0"
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    yield (b"\xff\xd8\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
           + b"\xff\xc0\0\x0b\x08\0\x10\0\x20\x01\x01\x11\0\xff\xda\0\x08\x01\x01\0\0\x3f\0\x55\xff\0\xff\xd9")

    def box(kind, content):
        return struct.pack(">I", len(content) + 8) + kind + content

    properties = box(b"ipco", box(b"ispe", bytes(4) + struct.pack(">II", 8, 6)) + box(b"irot", b"\1"))
    properties += box(b"ipma", bytes(4) + struct.pack(">IHBBB", 1, 1, 2, 1, 0x82))
    meta = bytes(4) + box(b"pitm", bytes(4) + struct.pack(">H", 1)) + box(b"iprp", properties)
    yield box(b"ftyp", b"avif\0\0\0\0avifmif1") + box(b"meta", meta) + box(b"mdat", b"x")
    samples = box(b"stbl", box(b"stsd", bytes(4) + struct.pack(">I", 1) + box(b"av01", bytes(24) + b"\0\x08\0\x06")))
    media = box(b"mdia", box(b"hdlr", bytes(8) + b"pict" + bytes(13)) + box(b"minf", samples))
    yield box(b"ftyp", b"avis\0\0\0\0msf1") + box(b"moov", box(b"trak", media)) + box(b"mdat", b"x")
    yield box(b"ftyp", b"mif3avif") + box(b"mini", bytes.fromhex("0c9880ff01fe"))
    # Items of no bytes, each with 65,535 extents of no bytes.
    locations = box(b"iloc", b"\2" + bytes(5) + b"\xff" * 4 + (bytes(8) + b"\xff\xff") * 4)
    yield box(b"ftyp", b"avif\0\0\0\0avifmif1") + box(b"meta", bytes(4) + locations)
    yield '<?xml version="1.0"?>\n<!-- x --><!DOCTYPE svg [<!ENTITY a "b">]>\n<svg xmlns="http://www.w3.org/2000/svg" width="10.5mm" height=\'2em\' viewBox="0 0 20,40"><g/></svg>'
    # A lot of white space before the text that determines the type.
    yield b"\f" * 90 + b'w<?xml version="2#0"?>\n<!-- x --><!DOCTYPE svg [<!ENTITY a "b">]>\n<t=\'2em\' +viewBox="0 0 20,40"><g/></svg>'
    yield '<svg:svg width="50%" viewBox="-1 -1 3e1 4"><svg:a b="<>"><![CDATA[ </svg> ]]></svg:a></svg:svg>'


def fields():
    yield 'max-age=60, stale-while-revalidate="30", no-cache="set-cookie", immutable, no-store, must-understand'
    yield "Max-Age = 99999999999999, stale-if-error=5, private, s-maxage=1, must-revalidate"
    yield "Sun, 06 Nov 1994 08:49:37 GMT"
    yield "Sunday, 06-Nov-94 08:49:37 GMT"
    yield "Sun Nov  6 08:49:37 1994"
    yield "120"
    yield "bytes 500-999/1000"
    yield "https://Example.org:8443/a%20b/../c?q=\u00e9#f"


def settings():
    for guide in sorted((ROOT / "contrib/guides").glob("*.md")):
        yield from (block for block in re.findall(r"```json5?\n(.*?)```", guide.read_text(), re.S) if len(block) < 1500)
    yield "// comment\n{a: 1, 'b': 0.5, \"c\": -1.5e+1, d: [null, true, 1e6,], /* x */ e: 'it\\'s\\n\\u00e9\\ud83d\\ude00',}"
    yield from DOCUMENTS[:4]


def templates():
    value = '\0{"a":{"b":[1,"<x>",null,true],"s":"text"},"on":true,"list":[{"n":1},{"n":2}]}'
    yield "Hello {{a.s}}{{a.missing?}}\n{{#on}}\nyes {{{a.b}}}\n{{/on}}\n{{^on}}no{{/on}}{{! comment }}" + value
    yield "{{=<% %>=}}<%#list%><%n%>,<%/list%><%={{ }}=%>{{%CONTENT_TYPE:HTML}}{{a.s}} {{&a.s}} {{.}}" + value
    cases = re.findall(r"^    case ([a-z, ]+)$", (ROOT / "Sources/LarderTemplate/Function.swift").read_text(), re.M)
    for function in ", ".join(cases).split(", "):
        yield "{{#list}}{{" + function + "()}}{{" + function + "(n)}}{{/list}}" + value
        yield "{{" + function + "(a.s)}} {{" + function + "(a.b)}} {{#" + function + "(list)}}{{.}}{{/" + function + "(list)}}" + value


def schemas():
    values = '\0{"a":{"b":[1,"x",null,true],"s":"text"},"on":true,"list":[{"n":1},{"n":2}]}\0{"a":{"b":[1]},"on":false}'
    for schema in sorted((ROOT / "contrib/benchmarks/schemas").glob("*.json")):
        text = compact(json.loads(schema.read_text()))
        # Titles and descriptions are omitted, because an input has at most 4,096 bytes.
        yield re.sub(r'"(title|description)":"[^"]*",', "", text) + '\0{"version":1,"flags":{}}'
    for file in sorted((ROOT / "Tests/LarderSchemaTests").glob("*Tests.swift")):
        for schema in re.findall(r'^ *\(?#+"(\{.*?\})"#+', file.read_text(), re.M):
            yield schema + values
    for part in re.findall(r'##"("[$a-z].*?)"##', (ROOT / "Tests/LarderSchemaTests/Draft7Tests.swift").read_text()):
        yield '{"$schema":"http://json-schema.org/draft-07/schema#",' + part + "}" + values
    yield '{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}},"unevaluatedProperties":false}' + values
    yield '{"$ref":"https://json-schema.org/draft/2020-12/schema"}\0{"properties":{"a":{"minLength":-1}}}\0{}'
    for name in ("date", "date-time", "duration", "email", "hostname", "ipv6", "iri", "regex"):
        yield '{"items":{"format":"' + name + '"}}\0["2026-01-31T08:30:00Z","P1Y2M","a@b.example","xn--bcher-kva.example","::1"]'


def patterns():
    text = (ROOT / "Tests/LarderSchemaTests/PatternTests.swift").read_text()
    for pattern in re.findall(r'\(#?"(.*?)"#?,', text):
        yield pattern + "\0abc123 \u00e9\U0001f600"


def names():
    for reference in ("../x?y#z", "//host/a/./b/../c", "?q", "#%41", "g;x=1/../y", "http:g", "./%2e%2e/a"):
        yield "http://user@host:80/b/c/d;p?q\0" + reference
    yield from ("xn--bcher-kva.example", "b\u00fccher.example", "a..b", "-a.b-")


def backups():
    body = compact({"format": 1, "epoch": "e", "namespace": "n", "revision": 7, "digest": "0" * 64, "publishedAt": 6,
                    "journal": 2, "released": 3, "causes": [], "layers": {"override": []}})
    head = compact({"format": 1, "sha256": hashlib.sha256(body.encode()).hexdigest()})
    line = compact({"namespace": "n", "revision": 7, "pinned": True, "generation": f"{head}\n{body}\n"})
    header = compact({"larderBackup": 1, "version": "1", "createdAt": "t", "stateDirectory": "/s", "omitted": ["x"],
                      "complete": False})
    yield f"{header}\n{line}\n"
    yield f"{header}\n{line}\n{line}\n"


def archives():
    peer = {"pid": 7, "uid": 1000, "command": "x"}
    remote = {"origin": "http://o", "updatedAt": 5, "version": "v1.2", "etag": '"e"', "document": {"s": {"l": 1}},
              "pushedBy": peer, "experiments": {"member": "x", "list": [{"name": "n"}]}}
    entry = {"path": ["s", "l"], "setAt": 3, "expiresAt": 9, "setBy": peer, "value": {"y": None}}
    hold = {"revision": 3, "since": 4, "refused": {"version": "2", "digest": "d", "origin": "o"}, "host": None,
            "remote": remote}
    layers = {"defaults": {"updatedAt": 1, "document": {"s": {"l": 0}}}, "host": {"updatedAt": 2, "document": {"t": []}},
              "remote": remote, "override": [entry], "hold": hold, "locks": [["s"], ["t", "u"]],
              "experiment": {"updatedAt": 1, "overlays": [{"name": "n", "remote": True, "values": {"z": 1}}]}}
    def body(layers, **more):
        return compact({"epoch": "e", "namespace": "n", "revision": 7, "digest": "d", "publishedAt": 6, "journal": 2,
                        "released": 3, "bytes": 10, "causes": [{"kind": "set", "path": ["a"], "peer": peer}],
                        "layers": layers} | more)

    def record(sequence, *operations):
        return compact({"sequence": sequence, "revision": 5 + sequence, "digest": "d", "publishedAt": 8, "released": 3,
                        "operations": operations, "causes": [{"kind": "push", "origin": "o"}]})

    yield body(layers)
    yield body({"override": []}, published=layers)
    values = ([["a", "b"], 1], [["a"], {"b": {"c": 2}}], [["a", "b", "c", "d"], None], [["e"], 5], [["e", "f"], {"g": 6}],
              [[], {"a": {"caf\u00e9": 7, "cafe\u0301": 8}}])
    yield body({"override": [{"path": path, "setAt": 1, "value": value} for path, value in values]})
    yield body(layers) + "\0" + "\n".join(
        (record(3, {"set": entry}), record(4, {"unset": ["s"]}, {"expire": 9}), record(5, {"remote": remote, "endsHold": True}),
         record(6, {"dropRemote": True}), record(7, {"rollback": {"override": [entry], "hold": hold}}),
         record(8, {"release": True}, {"experiment": layers["experiment"]})))
    yield "\0" + record(1, {"set": {"path": [], "setAt": 1, "value": {"a": 1}}}) + "\n" + record(3, {"set": entry})


def damages():
    for file in range(8):
        for how, operand in enumerate((1, 0x30, 0, 0, 0, 0x0A)):
            yield bytes((file, 37 * file & 255, 0, 0, how, operand))
    yield bytes((0, 1, 0, 0, 0, 9, 1, 2, 0, 0, 2, 0, 5, 200, 0, 0, 3, 0))


def snapshots():
    for document in DOCUMENTS:
        if document.lstrip().startswith("{"):
            yield document
            yield document.encode() + b"\0" + bytes((48, 0, 0, 1, 60, 0, 0, 255, 110, 0, 0, 7))
    yield b"LARDERS\1" + struct.pack("<IIQQQQ", 96, 0, 1, 132, 1, 1) + struct.pack("<8I", 96, 1, 128, 1, 132, 0, 132, 0) + bytes(52)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    usage = "usage: contrib/fuzz/make-corpus.py DIRECTORY"
    if "--help" in sys.argv[1:] or "-h" in sys.argv[1:]:
        print(usage)
        sys.exit()
    if len(sys.argv) != 2:
        sys.exit(usage)
    main(pathlib.Path(sys.argv[1]))
