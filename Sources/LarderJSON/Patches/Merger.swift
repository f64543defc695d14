/// Applies a row of merge patches in one pass over all of them, without recursion.
///
/// At each place of the result the layers that have something to say there are looked at lowest first, as RFC 7396
/// would apply them one after the other: null removes what was there, an object merges into an object, everything else
/// replaces. What is left is a scalar or array of one layer, or a run of layers whose objects merge.
struct Merger {
    /// A value of one layer.
    private struct Source {
        /// Which of the documents it is in.
        var layer: Int
        var node: Int
        /// Whether null members stay, as in the target of a patch; otherwise they remove.
        var keepsNulls: Bool
    }

    /// What the layers make of one place.
    private enum Outcome {
        case absent
        /// A scalar or array of one layer.
        case value(Source)
        /// The objects from this place in `sources` to its end.
        case objects(from: Int)
    }

    /// An object of the result, while it is written.
    private struct Frame {
        /// Its sources in `sources`, lowest layer first.
        let first: Int
        let end: Int
        /// The source that is being visited.
        var current: Int
        /// Its next member.
        var members: MemberCursor
        /// The first source's name nodes that other sources mention, in order, if the rest can be copied in blocks.
        var touched: [Int]?
        var nextTouched = 0
        /// The first source's next member, if it is copied in blocks.
        var position: Int
    }

    /// Compact and without duplicates, all of them.
    private let documents: [Document]
    private var builder: TapeBuilder
    /// A stack: the sources of the open frames, each frame's behind those of the frame around it.
    private var sources: [Source] = []
    private var frames: [Frame] = []

    /// The first value after all others were applied to it. If it is itself a patch, its null members go.
    static func merge(_ values: [JSONValue], firstIsPatch: Bool) -> JSONValue {
        // Whatever is not compact is made so first: then every part that is left alone can be copied as a block.
        let values = values.map { $0.entry.has(Node.Flag.clean) ? $0 : $0.detached() }
        var merger = Merger(values)
        var fold = Fold(start: 0)
        for (layer, value) in values.enumerated() {
            let source = Source(layer: layer, node: value.node, keepsNulls: layer == 0 && !firstIsPatch)
            merger.feed(&fold, source, order: layer)
        }
        switch fold.outcome {
        case .absent: return .null
        case .value(let source): return values[source.layer]
        case .objects:
            if let only = merger.soleCopyable(from: 0) {
                return JSONValue(document: merger.documents[only.layer], node: only.node)
            }
            merger.push(from: 0)
            while !merger.frames.isEmpty { merger.step() }
            return merger.builder.finish()
        }
    }

    private init(_ values: [JSONValue]) {
        documents = values.map(\.document)
        builder = TapeBuilder(
            textCapacity: values.reduce(0) { $0 + Int($1.entry.length) },
            nodeCapacity: values.reduce(1) { $0 + Int($1.entry.span) })
    }

    private func entry(_ source: Source) -> Node { documents[source.layer].nodes[source.node] }

    // MARK: What the layers make of one place

    private struct Fold {
        /// Where the run of objects begins in `sources`, if there is one.
        let start: Int
        var outcome = Outcome.absent
        /// The source by which the member came to be after it was absent: its place in the result.
        var home = 0
    }

    private mutating func feed(_ fold: inout Fold, _ source: Source, order: Int) {
        let entry = entry(source)
        if case .absent = fold.outcome { fold.home = order }
        guard entry.kind == Node.Kind.object else {
            sources.removeLast(sources.count - fold.start)
            fold.outcome = entry.kind == Node.Kind.null && !source.keepsNulls ? .absent : .value(source)
            return
        }
        if case .objects = fold.outcome {
            // An empty object adds nothing to another one.
            if entry.span == 1 { return }
            if sources.count == fold.start + 1, self.entry(sources[fold.start]).span == 1 { sources.removeLast() }
        }
        sources.append(source)
        fold.outcome = .objects(from: fold.start)
    }

    /// What becomes of the member `name` of the source `current`, whose own value for it is `value`; nil if the member
    /// is there because of an earlier source.
    private mutating func fold(_ frame: Int, _ current: Int, name: Int, value: Int) -> Fold? {
        let document = documents[sources[current].layer]
        func node(_ order: Int) -> Int? {
            let source = sources[order]
            return Names.find(documents[source.layer], object: source.node, like: name, of: document)
        }
        // The nearest source below that mentions the name has left it there or removed it.
        for order in (frames[frame].first..<current).reversed() {
            guard let node = node(order) else { continue }
            let source = sources[order]
            if source.keepsNulls || documents[source.layer].nodes[node].kind != Node.Kind.null { return nil }
            break
        }
        var fold = Fold(start: sources.count)
        for order in current..<frames[frame].end {
            guard let node = order == current ? value : node(order) else { continue }
            let source = sources[order]
            feed(&fold, Source(layer: source.layer, node: node, keepsNulls: source.keepsNulls), order: order)
        }
        return fold
    }

    // MARK: Writing

    /// The last run of `sources` if it is one object that can be copied as it is.
    private func soleCopyable(from first: Int) -> Source? {
        guard sources.count == first + 1, let source = sources.last, isCopyable(source) else { return nil }
        return source
    }

    private func isCopyable(_ source: Source) -> Bool {
        source.keepsNulls || !entry(source).has(Node.Flag.nullMembers)
    }

    /// Begins the object that the sources from `first` on make.
    private mutating func push(from first: Int) {
        let source = sources[first]
        builder.beginObject()
        frames.append(
            Frame(
                first: first, end: sources.count, current: first,
                members: MemberCursor(documents[source.layer], object: source.node),
                touched: isCopyable(source) ? touched(from: first) : nil, position: source.node + 1))
    }

    /// The name nodes of the source `first` that the sources after it mention.
    private func touched(from first: Int) -> [Int] {
        let base = sources[first]
        var touched: [Int] = []
        for source in sources[(first + 1)...] {
            let document = documents[source.layer]
            var members = MemberCursor(document, object: source.node)
            while let (name, _) = members.next(document) {
                let value = Names.find(documents[base.layer], object: base.node, like: name, of: document)
                if let value { touched.append(value - 1) }
            }
        }
        touched.sort()
        return touched
    }

    /// Goes on with the innermost object up to its next member that is not just copied, or ends it.
    private mutating func step() {
        let last = frames.count - 1
        let current = frames[last].current
        guard current < frames[last].end else {
            builder.endObject()
            sources.removeLast(sources.count - frames[last].first)
            frames.removeLast()
            return
        }
        let source = sources[current]
        let document = documents[source.layer]
        if current == frames[last].first, frames[last].touched != nil {
            copyBlock(last, source, document)
        } else if let (name, value) = frames[last].members.next(document) {
            member(last, document, name: name, value: value)
        } else {
            nextSource(last)
        }
    }

    /// Copies the members of the first source up to the next one that another source mentions, and treats that one.
    private mutating func copyBlock(_ last: Int, _ source: Source, _ document: Document) {
        let start = frames[last].position
        let entry = document.nodes[source.node]
        let end = source.node + Int(entry.span) - (entry.has(Node.Flag.indexed) ? 1 : 0)
        var name = end
        while let touched = frames[last].touched, frames[last].nextTouched < touched.count {
            let next = touched[frames[last].nextTouched]
            frames[last].nextTouched += 1
            // Several sources may mention the same member.
            guard next >= start else { continue }
            name = next
            break
        }
        builder.members(document, from: start, to: name, hasNulls: entry.has(Node.Flag.nullMembers))
        guard name < end else { return nextSource(last) }
        frames[last].position = name + 1 + Int(document.nodes[name + 1].span)
        member(last, document, name: name, value: name + 1)
    }

    private mutating func member(_ last: Int, _ document: Document, name: Int, value: Int) {
        let current = frames[last].current
        guard let fold = fold(last, current, name: name, value: value) else { return }
        // It may have been removed above and brought back.
        guard fold.home == current else {
            sources.removeLast(sources.count - fold.start)
            return
        }
        switch fold.outcome {
        case .absent: return
        case .value(let source):
            builder.name(document, name)
            builder.copy(documents[source.layer], source.node)
        case .objects(let first):
            builder.name(document, name)
            if let source = soleCopyable(from: first) {
                builder.copy(documents[source.layer], source.node)
                sources.removeLast()
            } else {
                push(from: first)
            }
        }
    }

    private mutating func nextSource(_ last: Int) {
        frames[last].current += 1
        let current = frames[last].current
        guard current < frames[last].end else { return }
        frames[last].members = MemberCursor(documents[sources[current].layer], object: sources[current].node)
    }
}
