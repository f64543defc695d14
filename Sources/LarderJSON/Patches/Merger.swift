/// Applies a sequence of JSON Merge Patches (RFC 7396) in one pass, without recursion.
///
/// Each of these documents is a layer. At each path the merger folds the layers that have a value there, lowest first:
/// null removes the value so far, an object merges into an object, and any other value replaces the value so far. The
/// outcome is nothing, a scalar or array of one layer, or one or more objects to merge.
struct Merger {
    /// A value of one layer.
    private struct Source {
        /// The index of the document that contains the value.
        var layer: Int
        var node: Int
        /// Whether null members are kept as values, as in the target of a patch. Otherwise they remove members.
        var keepsNulls: Bool
    }

    /// The outcome of folding the layers at one path.
    private enum Outcome {
        case absent
        /// A scalar or array of one layer.
        case value(Source)
        /// The objects in `sources` from this index to the end, to be merged.
        case objects(from: Int)
    }

    /// An object of the result that is being written.
    private struct Frame {
        /// The range of the object's sources in `sources`, lowest layer first.
        let first: Int
        let end: Int
        /// The index of the source that is being visited.
        var current: Int
        /// The position in the current source.
        var members: MemberCursor
        /// The name nodes of those members of the first source that other sources have too, in order. The members
        /// between them can be copied in blocks. Nil if the first source cannot be copied in blocks.
        var touched: [Int]?
        var nextTouched = 0
        /// If the first source is copied in blocks, the name node of its next member that has not been written.
        var position: Int
    }

    /// The documents of the values to merge, all compact and free of duplicate members.
    private let documents: [Document]
    private var builder: TapeBuilder
    /// A stack with the sources of the open frames, innermost last.
    private var sources: [Source] = []
    private var frames: [Frame] = []

    /// Applies the second and all later values, in order, to the first one. If the first value is itself a patch, its
    /// null members are removed.
    static func merge(_ values: [JSONValue], firstIsPatch: Bool) -> JSONValue {
        // Values are made compact first, so that unchanged parts can be copied as blocks.
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

    // MARK: Folding the layers at one path

    private struct Fold {
        /// The index in `sources` at which the objects to merge begin, if the outcome is `objects`.
        let start: Int
        var outcome = Outcome.absent
        /// The index of the source that introduced the member, or reintroduced it after a removal. This source
        /// determines the member's position.
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
            // Merging an empty object has no effect.
            if entry.span == 1 { return }
            if sources.count == fold.start + 1, self.entry(sources[fold.start]).span == 1 { sources.removeLast() }
        }
        sources.append(source)
        fold.outcome = .objects(from: fold.start)
    }

    /// Folds the values of the member `name`, starting with `value` of the source `current`. Returns nil if an earlier
    /// source has introduced the member.
    private mutating func fold(_ frame: Int, _ current: Int, name: Int, value: Int) -> Fold? {
        let document = documents[sources[current].layer]
        func node(_ order: Int) -> Int? {
            let source = sources[order]
            return Names.find(documents[source.layer], object: source.node, like: name, of: document)
        }
        // The nearest lower source that has the name decides whether the lower layers have the member.
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

    /// The source at `first`, if it is the last one and can be copied unchanged; otherwise nil.
    private func soleCopyable(from first: Int) -> Source? {
        guard sources.count == first + 1, let source = sources.last, isCopyable(source) else { return nil }
        return source
    }

    private func isCopyable(_ source: Source) -> Bool {
        source.keepsNulls || !entry(source).has(Node.Flag.nullMembers)
    }

    /// Begins an object that merges the sources from `first` on.
    private mutating func push(from first: Int) {
        let source = sources[first]
        builder.beginObject()
        frames.append(
            Frame(
                first: first, end: sources.count, current: first,
                members: MemberCursor(documents[source.layer], object: source.node),
                touched: isCopyable(source) ? touched(from: first) : nil, position: source.node + 1))
    }

    /// The name nodes of those members of the source `first` that later sources have too.
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

    /// Writes the innermost object up to and including its next member that must be folded, or ends the object.
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

    /// Copies the members of the first source up to the next one that another source has too, and folds that member.
    private mutating func copyBlock(_ last: Int, _ source: Source, _ document: Document) {
        let start = frames[last].position
        let entry = document.nodes[source.node]
        let end = source.node + Int(entry.span) - (entry.has(Node.Flag.indexed) ? 1 : 0)
        var name = end
        while let touched = frames[last].touched, frames[last].nextTouched < touched.count {
            let next = touched[frames[last].nextTouched]
            frames[last].nextTouched += 1
            // Several later sources may have the same member, so the name node of that member can occur in `touched`
            // more than once.
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
        // If a later source has removed the member and another one has reintroduced it, the member is written when that
        // other source is visited.
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

/// JSON Merge Patch (RFC 7396).
///
/// Member order is stable: members of the target keep their positions, and new members follow in the order of the
/// patch. Parts that no patch changes are copied in one piece. If nothing changes, the result shares the document of
/// the target.
package enum MergePatch {
    /// Applies a patch to a target (`MergePatch` in RFC 7396, section 2).
    package static func apply(_ patch: JSONValue, to target: JSONValue?) -> JSONValue {
        guard let target else { return Merger.merge([patch], firstIsPatch: true) }
        return Merger.merge([target, patch], firstIsPatch: false)
    }

    /// Applies the layers, which are merge patches, in array order to an empty object. The first layer has the lowest
    /// precedence. Takes one pass over all layers.
    package static func merge(_ layers: [JSONValue]) -> JSONValue {
        layers.isEmpty ? .emptyObject : Merger.merge(layers, firstIsPatch: true)
    }

    /// The patch that turns `old` into `new`; the empty object if both are equal objects. Nil if the patch would have
    /// to create a null member, which a merge patch cannot do.
    package static func difference(from old: JSONValue, to new: JSONValue) -> JSONValue? {
        Difference.patch(from: old, to: new)
    }

    /// Returns one patch with the effect of `first` followed by `second`. Null members stay in the result, because they
    /// remove members of the target.
    ///
    /// The result is inexact if `second` has an object where `first` has a scalar, an array or null. A single patch
    /// cannot replace a value by an object, so members of the target remain. ``ComposedPatch`` is exact.
    package static func compose(_ first: JSONValue, _ second: JSONValue) -> JSONValue {
        guard first.kind == .object, second.kind == .object else { return second }
        var members = first.members.map { member in
            (member.name, second[member.name].map { compose(member.value, $0) } ?? member.value)
        }
        for member in second.members where first[member.name] == nil {
            members.append((member.name, member.value))
        }
        return .object(members)
    }
}
