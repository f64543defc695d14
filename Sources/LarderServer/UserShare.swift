import DequeModule
import NIOCore

/// What the connections of one user have of a round of their event loop. Used on that loop only.
final class UserShare {
    /// How many of them are served in a round before those of other users are.
    static let mostInRound = 8

    fileprivate let user: Int
    fileprivate var connections = 0
    private var round = 0
    private var served = 0
    /// What they left over, in the order in which they did.
    private var leftOver = Deque<() -> Void>()

    fileprivate init(user: Int) { self.user = user }

    /// Takes one out of the round.
    /// - Returns: whether there was none left.
    func isUsedUp(in round: Int) -> Bool {
        if round != self.round { (self.round, served) = (round, 0) }
        served += 1
        return served > Self.mostInRound
    }

    /// Keeps what a connection leaves over.
    /// - Returns: whether it is the first, so that somebody has to see to it that it is done.
    func leaveOver(_ piece: @escaping () -> Void) -> Bool {
        leftOver.append(piece)
        return leftOver.count == 1
    }

    /// Does what was left over, until the time is over. What that leaves over itself waits.
    /// - Returns: whether something is left, so that somebody has to see to it again.
    func runLeftOver(for time: TimeAmount) -> Bool {
        let end = NIODeadline.now() + time
        // The first one stays as long as it is done: while there is one, nobody else sees to them.
        for _ in 0..<leftOver.count {
            let piece = leftOver[0]
            piece()
            leftOver.removeFirst()
            if NIODeadline.now() >= end { break }
        }
        return !leftOver.isEmpty
    }
}

/// The shares of all users who are connected on one event loop.
struct UserShares {
    private var shares: [Int: UserShare] = [:]
    /// The one asked for last is kept without a connection, too: a script connects again and again.
    private var last: UserShare?
    /// How many users there are.
    private(set) var users = 0

    /// Another connection of a user.
    mutating func join(_ user: Int) -> UserShare {
        let share = share(of: user)
        if share.connections == 0 { users += 1 }
        share.connections += 1
        return share
    }

    /// A connection is over.
    mutating func leave(_ share: UserShare) {
        share.connections -= 1
        guard share.connections == 0 else { return }
        users -= 1
        if share !== last { shares[share.user] = nil }
    }

    private mutating func share(of user: Int) -> UserShare {
        if let last, last.user == user { return last }
        if let last, last.connections == 0 { shares[last.user] = nil }
        let share = shares[user] ?? UserShare(user: user)
        shares[user] = share
        last = share
        return share
    }
}
