/// The picture track of an image sequence, according to its `moov` box (ISO/IEC 14496-12, section 8; ISO/IEC 23008-12,
/// section 7).
struct PictureTrack {
    /// The size of the first track with pictures; nil if there is none.
    private(set) var size: (width: Int, height: Int)?
    /// Whether the sequence has a track with alpha values.
    private(set) var hasAlpha = false

    /// Parses the contents of the box.
    init(_ movie: inout ByteReader) throws(ByteReader.Damage) {
        try movie.boxes { (type, box) throws(ByteReader.Damage) in
            guard type == "trak" else { return }
            var track = Track()
            try track.read(&box)
            switch track.handler {
            case "pict", "vide": size = size ?? track.size
            case "auxv": hasAlpha = true
            default: break
            }
        }
    }
}

/// The properties of a track: its kind, and the size of its first kind of sample.
private struct Track {
    private(set) var handler: BoxType?
    private(set) var size: (width: Int, height: Int)?

    /// The types of the boxes in each other that lead to the properties.
    private static let path: [BoxType] = ["mdia", "minf", "stbl", "stsd"]

    /// Parses the contents of the box at a depth below `trak`.
    mutating func read(_ boxes: inout ByteReader, depth: Int = 0) throws(ByteReader.Damage) {
        try boxes.boxes { (type, box) throws(ByteReader.Damage) in
            if type == "hdlr", depth == 1 {
                try box.skip(8)
                handler = try box.boxType()
            } else if type == Self.path[depth] {
                if depth + 1 < Self.path.count { try read(&box, depth: depth + 1) } else { try readSize(&box) }
            }
        }
    }

    /// Parses the contents of `stsd`: a version, flags, a count, then boxes that begin with 24 other bytes.
    private mutating func readSize(_ descriptions: inout ByteReader) throws(ByteReader.Damage) {
        try descriptions.skip(8)
        try descriptions.boxes { (_, entry) throws(ByteReader.Damage) in
            guard size == nil else { return }
            try entry.skip(24)
            let width = try entry.number(2)
            size = (width, try entry.number(2))
        }
    }
}
