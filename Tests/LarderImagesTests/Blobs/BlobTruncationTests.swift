import LarderImageFormats
import TestSupport
import Testing

@testable import LarderImages

@Suite("Truncated images and wrong frame counts")
struct BlobTruncationTests {
    @Test(
        "the frames of an animation are those in the file, but not more than it declares",
        arguments: [1, 2, 3, 1_000_000])
    func wrongFrameCount(_ frames: Int) throws {
        let control = MadeImages.chunk("fcTL", [UInt8](repeating: 0, count: 26))
        let image =
            MadeImages.pngStart(1000, 1000) + MadeImages.chunk("acTL", MadeImages.big(frames, 4) + [0, 0, 0, 0])
            + control + MadeImages.chunk("IDAT", [9]) + control + MadeImages.chunk("fdAT", [0, 0, 0, 1, 9])
            + MadeImages.chunk("IEND", [])
        try withDirectory { path in
            let blob = try BlobStore(path: path).put(image)
            #expect(blob.header.frameCount == min(frames, 2))
            #expect(blob.header.isAnimated == (frames > 1))
        }
    }

    @Test("a writer rejects a truncated image and keeps bytes after the end of an image")
    func writer() throws {
        try withDirectory { path in
            let store = try BlobStore(path: path)
            let image = picture(1)
            let error = #expect(throws: ImageError.self) { try store.put(Array(image.dropLast())) }
            #expect(error?.code == .truncatedImage)
            #expect(error?.message.contains("999") == true)
            #expect(filesBelow(path).keys.sorted() == ["lock"])
            #expect(try store.put(image + [1, 2, 3]).size == 1003)
        }
    }
}
