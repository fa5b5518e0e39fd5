#include <lockstep/store/protocol.h>

#include <fmt/format.h>

namespace lockstep::store {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kNumberBytes = 8;

void append_number(std::string& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

MessageWriter& MessageWriter::number(std::uint64_t value) {
  append_number(body_, value, kNumberBytes);
  return *this;
}

MessageWriter& MessageWriter::text(std::string_view value) {
  number(value.size());
  body_ += value;
  return *this;
}

MessageWriter& MessageWriter::keys(const std::vector<std::string>& keys) {
  number(keys.size());
  for (const auto& key : keys) text(key);
  return *this;
}

MessageWriter& MessageWriter::append(const MessageWriter& other) {
  body_ += other.body_;
  return *this;
}

std::string MessageWriter::message() const {
  if (body_.size() > kMostMessageBytes) {
    throw BadMessage(
        fmt::format("a message of {} bytes is longer than the store takes ({})", body_.size(), kMostMessageBytes));
  }
  std::string bytes;
  bytes.reserve(kLengthBytes + body_.size());
  append_number(bytes, body_.size(), kLengthBytes);
  bytes += body_;
  return bytes;
}

std::string_view MessageReader::take(std::size_t bytes) {
  if (bytes > rest_.size()) throw BadMessage("a message ends early");
  const auto taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t MessageReader::number() { return number_in(take(kNumberBytes)); }

std::string_view MessageReader::text() {
  const auto length = number();
  if (length > rest_.size()) throw BadMessage("a message ends early");
  return take(static_cast<std::size_t>(length));
}

std::string MessageReader::key() {
  const auto key = text();
  if (key.size() > kMostKeyBytes) throw BadMessage(fmt::format("a key has {} bytes", key.size()));
  return std::string(key);
}

void MessageReader::expect_end() const {
  if (!rest_.empty()) throw BadMessage("a message goes on after its end");
}

std::optional<std::string_view> first_body(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const auto length = static_cast<std::size_t>(number_in(bytes.substr(0, kLengthBytes)));
  if (length > kMostMessageBytes) throw BadMessage(fmt::format("a message is to have {} bytes", length));
  if (bytes.size() < kLengthBytes + length) return std::nullopt;
  return bytes.substr(kLengthBytes, length);
}

std::size_t bytes_of_message(std::string_view body) { return kLengthBytes + body.size(); }

}  // namespace lockstep::store
