"""Writes Arrow's file format by its description alone, whatever the columns say of themselves: also such
files as no writer would make."""
import struct


class Table(dict):
    """A table of a flat buffer: fields by number, each a Table, a Vector, a text, or (format, number)."""


class Vector(list):
    """Of tables."""


class Structs(bytes):
    """A vector of structs of 16 or 24 bytes."""
    size = 16


def flat_buffer(root):
    """The bytes of a flat buffer. Everything begins at a multiple of 8, and what refers comes before what
    is referred to."""
    out = bytearray(8)

    def align():
        out.extend(bytes(-len(out) % 8))

    def refer(at, value):
        struct.pack_into("<I", out, at, place(value) - at)

    def place(value):
        align()
        if isinstance(value, Table):
            fields = max(value, default=-1) + 1
            vtable = len(out)
            out.extend(struct.pack("<HH", 4 + 2 * fields, 8 * (fields + 1)))
            out.extend(struct.pack(f"<{fields}H", *(8 * (i + 1) if i in value else 0 for i in range(fields))))
            align()
            here = len(out)
            out.extend(struct.pack("<i", here - vtable) + bytes(4 + 8 * fields))
            for i, field in value.items():
                at = here + 8 * (i + 1)
                if isinstance(field, tuple):
                    struct.pack_into("<" + field[0], out, at, field[1])
                else:
                    refer(at, field)
            return here
        if isinstance(value, Structs):
            # The count lies right before the structs, which lie at a multiple of 8.
            out.extend(bytes(4) + struct.pack("<I", len(value) // value.size) + value)
            return len(out) - len(value) - 4
        here = len(out)
        if isinstance(value, str):
            out.extend(struct.pack("<I", len(value.encode())) + value.encode() + b"\0")
            return here
        out.extend(struct.pack("<I", len(value)) + bytes(4 * len(value)))
        for i, table in enumerate(value):
            refer(here + 4 + 4 * i, table)
        return here

    refer(0, root)
    align()
    return bytes(out)


def number(bits, signed=False):
    return 2, Table({0: ("i", bits), 1: ("B", int(signed))})


def field(name, kind, children=()):
    """A column; `kind` is Arrow's number of its type and the table that describes it."""
    return Table({0: name, 2: ("B", kind[0]), 3: kind[1], 5: Vector(children)})


def nested(name, depth, kind):
    """Lists in lists of numbers."""
    made = field(name if depth == 0 else "item", kind)
    for level in reversed(range(depth)):
        made = field(name if level == 0 else "item", (12, Table()), [made])
    return made


def message(header, content, body):
    head = flat_buffer(Table({0: ("h", 4), 1: ("B", header), 2: content, 3: ("q", len(body))}))
    return struct.pack("<II", 0xffffffff, len(head)) + head + body


def batch(rows, lengths, buffers):
    """A record batch: the length of every column, inner ones after outer ones, and the buffers in order."""
    body, places = bytearray(), b""
    for buffer in buffers:
        places += struct.pack("<qq", len(body), len(buffer))
        body += buffer + bytes(-len(buffer) % 8)
    nodes = b"".join(struct.pack("<qq", length, 0) for length in lengths)
    return message(3, Table({0: ("q", rows), 1: Structs(nodes), 2: Structs(places)}), bytes(body))


def arrow_file(fields, batches, order=None):
    """`order` says which batches the footer names, and how often; each one once, if nothing does."""
    schema = Table({1: Vector(fields)})
    out = bytearray(b"ARROW1\0\0" + message(1, schema, b""))
    places = []
    for each in batches:
        out.extend(bytes(-len(out) % 8))
        places.append(len(out))
        out += each
    blocks = Structs(b"".join(struct.pack("<qiiq", places[i], 0, 0, 0)
                              for i in (range(len(batches)) if order is None else order)))
    blocks.size = 24
    footer = flat_buffer(Table({0: ("h", 4), 1: schema, 3: blocks}))
    return bytes(out) + footer + struct.pack("<I", len(footer)) + b"ARROW1"


def offsets(*numbers):
    return struct.pack(f"<{len(numbers)}i", *numbers)


def claiming(sizes):
    """A file of one row of lists in lists, where the first list of every level has these sizes and the
    others are empty: it claims their product, and holds their sum."""
    lengths, buffers = [], []
    length = 1
    for size in sizes:
        lengths.append(length)
        buffers += [b"", offsets(0, *[size] * length)]
        length = size
    lengths.append(length)
    buffers += [b"", b"A" * length]
    columns = [nested("x", len(sizes), number(8)), field("y", number(8))]
    return arrow_file(columns, [batch(1, lengths + [1], buffers + [b"", b"\1"])])


def repeating(times):
    """A file whose footer names its only batch, of ten rows, this many times."""
    columns = [field("x", number(8)), field("y", number(8))]
    rows = batch(10, [10, 10], [b"", bytes(range(10)), b"", bytes([0, 1] * 5)])
    return arrow_file(columns, [rows], [0] * times)
