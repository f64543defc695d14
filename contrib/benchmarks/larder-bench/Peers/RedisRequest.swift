/// Redis commands as arrays of bulk strings (RESP2).
enum RedisRequest {
    static func command(_ words: String...) -> [UInt8] {
        var text = "*\(words.count)\r\n"
        for word in words { text += "$\(word.utf8.count)\r\n\(word)\r\n" }
        return Array(text.utf8)
    }
}
