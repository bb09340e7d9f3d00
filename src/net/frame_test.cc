#include "net/frame.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dure::net {
namespace {

using Message = std::pair<int, std::string>;

// All whole frames that have come, or the error in their place.
std::vector<Message> drain(FrameReader& reader) {
  std::vector<Message> messages;
  while (true) {
    const auto frame = reader.next();
    if (!frame) {
      messages.emplace_back(-1, frame.error().message());
      return messages;
    }
    if (!*frame) return messages;
    messages.emplace_back((*frame)->type, std::string((*frame)->payload));
  }
}

TEST(Frame, IsALittleEndianLengthATypeAndThePayload) {
  std::string bytes;
  appendFrame(bytes, 7, "abc");
  EXPECT_EQ(bytes, std::string("\x04\0\0\0\x07"
                               "abc",
                               8));
  bytes.clear();
  appendFrame(bytes, 255, std::string(0x010203 - 1, 'x'));
  EXPECT_EQ(bytes.substr(0, kFrameHeader), std::string("\x03\x02\x01\0\xff", 5));
}

TEST(FrameReader, ByteByByteEachFrameComesWithItsLastByte) {
  std::string bytes;
  appendFrame(bytes, 1, "one");
  appendFrame(bytes, 2, "");
  const std::size_t first = kFrameHeader + 3;
  FrameReader reader;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    reader.feed(std::string_view(bytes).substr(i, 1));
    const auto messages = drain(reader);
    if (i + 1 == first) {
      EXPECT_EQ(messages, (std::vector<Message>{{1, "one"}}));
    } else if (i + 1 == bytes.size()) {
      EXPECT_EQ(messages, (std::vector<Message>{{2, ""}}));
    } else {
      EXPECT_TRUE(messages.empty()) << i;
    }
  }
}

TEST(FrameReader, HoweverTheBytesAreChoppedTheSameFramesComeOut) {
  std::mt19937 random(1);
  const auto upTo = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Message> sent;
    std::string bytes;
    for (std::size_t i = upTo(20); i > 0; --i) {
      std::string payload(upTo(round % 5 == 0 ? 100'000 : 50), '\0');
      for (char& c : payload) c = static_cast<char>(upTo(255));
      sent.emplace_back(static_cast<int>(upTo(255)), payload);
      appendFrame(bytes, static_cast<std::uint8_t>(sent.back().first), payload);
    }
    FrameReader reader;
    std::vector<Message> got;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = upTo(round % 3 == 0 ? 7 : 5000);
      reader.feed(std::string_view(bytes).substr(at, size));
      at += size;
      // Not after every feed: several may wait.
      if (upTo(2) == 0) continue;
      for (Message& message : drain(reader)) got.push_back(std::move(message));
    }
    for (Message& message : drain(reader)) got.push_back(std::move(message));
    EXPECT_EQ(got, sent);
  }
}

TEST(FrameReader, AnEmptyFrameIsRefused) {
  FrameReader reader;
  reader.feed(std::string_view("\0\0\0\0", 4));
  const auto frame = reader.next();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code(), Code::kInvalid);
}

TEST(FrameReader, AFrameAboveTheLimitIsRefusedBeforeItComes) {
  FrameReader reader;
  reader.setLimit(10);
  std::string fits;
  appendFrame(fits, 1, "123456789");
  std::string larger;
  appendFrame(larger, 1, "1234567890");
  reader.feed(fits);
  reader.feed(std::string_view(larger).substr(0, 4));
  EXPECT_EQ((*reader.next())->payload, "123456789");
  EXPECT_EQ(reader.next().error().code(), Code::kInvalid);
  EXPECT_FALSE(reader.next()) << "and is not passed over";
}

TEST(FrameReader, TheLargestFrameIsTakenAndOneMoreByteIsNot) {
  std::string bytes;
  appendFrame(bytes, 1, std::string(kMaxFrame - 1, 'x'));
  FrameReader reader;
  reader.feed(bytes);
  EXPECT_EQ((*reader.next())->payload.size(), kMaxFrame - 1);
  FrameReader other;
  other.feed(std::string_view("\x01\x00\x40\x00", 4));
  EXPECT_FALSE(other.next());
  FrameReader noise;
  noise.feed("GET / HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(noise.next()) << "whoever speaks another language is not one of ours";
}

TEST(FrameReader, ALimitMayBeRaisedForThoseWhoProvedWhoTheyAre) {
  std::string bytes;
  appendFrame(bytes, 1, "hello");
  appendFrame(bytes, 2, std::string(100, 'x'));
  FrameReader reader;
  reader.setLimit(16);
  reader.feed(bytes);
  EXPECT_EQ((*reader.next())->payload, "hello");
  reader.setLimit(kMaxFrame);
  EXPECT_EQ((*reader.next())->payload.size(), 100u);
}

}  // namespace
}  // namespace dure::net
