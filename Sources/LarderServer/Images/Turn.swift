import Synchronization

/// Something that one task has at a time; the others wait in the order in which they came.
final class Turn: Sendable {
    private struct State {
        var isTaken = false
        var lastNumber = 0
        var waiting: [(number: Int, continuation: CheckedContinuation<Bool, Never>)] = []
    }

    private let state = Mutex(State())

    /// Waits for the turn.
    /// - Returns: whether the caller has it now and gives it back; no if its task was cancelled
    func take() async -> Bool {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer: Bool? = state.withLock { state in
                    // Whoever cancels it after this finds it among those that wait.
                    if Task.isCancelled { return false }
                    if state.isTaken {
                        state.waiting.append((number, continuation))
                        return nil
                    }
                    state.isTaken = true
                    return true
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            giveUp(number)
        }
    }

    /// Lets the next one have it.
    func giveBack() {
        let next = state.withLock { state in
            let next = state.waiting.isEmpty ? nil : state.waiting.removeFirst().continuation
            state.isTaken = next != nil
            return next
        }
        next?.resume(returning: true)
    }

    /// How many wait for it.
    var waiting: Int { state.withLock { $0.waiting.count } }

    private func giveUp(_ number: Int) {
        let continuation = state.withLock { state in
            let place = state.waiting.firstIndex { $0.number == number }
            return place.map { state.waiting.remove(at: $0).continuation }
        }
        continuation?.resume(returning: false)
    }
}
