/// Stands in for the error of the command line, which is not built for fuzzing except for ``BackupFile``.
struct Failure: Error, Equatable {
    enum Status { case failure }

    let message: String

    init(_ status: Status, _ message: String) { self.message = message }
}
