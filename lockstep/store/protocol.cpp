// An encoder and a decoder of the store's messages, and the lines of its handshake with their proofs.
#include <lockstep/store/protocol.h>

#include <lockstep/base/crypto.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
        fmt::format("a message of {} bytes is longer than the store accepts ({})", body_.size(), kMostMessageBytes));
  }
  std::string bytes;
  bytes.reserve(kLengthBytes + body_.size());
  append_number(bytes, body_.size(), kLengthBytes);
  bytes += body_;
  return bytes;
}

MessageWriter answer_to(std::uint64_t request, Status status) {
  MessageWriter answer;
  answer.number(request).number(static_cast<std::uint64_t>(status));
  return answer;
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
  if (!rest_.empty()) throw BadMessage("a message has bytes after its end");
}

std::optional<std::string_view> first_body(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const auto length = static_cast<std::size_t>(number_in(bytes.substr(0, kLengthBytes)));
  if (length > kMostMessageBytes) throw BadMessage(fmt::format("a message has a length of {} bytes", length));
  if (bytes.size() < kLengthBytes + length) return std::nullopt;
  return bytes.substr(kLengthBytes, length);
}

std::size_t bytes_of_message(std::string_view body) { return kLengthBytes + body.size(); }

namespace {

constexpr std::string_view kClient = "store client";
constexpr std::string_view kServer = "store server";
constexpr std::string_view kEndOfHello = "\r\n\r\n";
constexpr std::string_view kEndOfLine = "\r\n";
constexpr std::string_view kSecret = "secret ";
constexpr std::string_view kOpen = "open   ";
constexpr std::string_view kTls = "tls    ";
constexpr std::string_view kWelcome = "ok ";
constexpr std::string_view kRefused = "no ";

std::string both(const Nonces& nonces) { return nonces.of_client + nonces.of_server; }

std::string proof_of(std::string_view who, const std::string& secret, const Nonces& nonces) {
  return prove(secret, who, both(nonces));
}

}  // namespace

bool can_be_greeting(std::string_view bytes) {
  const auto length = std::min(bytes.size(), kGreeting.size());
  return bytes.substr(0, length) == kGreeting.substr(0, length);
}

std::string print_hello(const std::string& nonce) { return std::string(kGreeting).append(nonce).append(kEndOfHello); }

std::optional<std::string> parse_hello(std::string_view bytes) {
  if (bytes.size() != kHelloBytes || !bytes.starts_with(kGreeting) || !bytes.ends_with(kEndOfHello)) {
    return std::nullopt;
  }
  return std::string(bytes.substr(kGreeting.size(), kNonceBytes));
}

std::string print_challenge(const Challenge& challenge) {
  using Wants = Challenge::Wants;
  const auto word = challenge.wants == Wants::tls ? kTls : challenge.wants == Wants::secret ? kSecret : kOpen;
  return std::string(kGreeting).append(word).append(challenge.nonce).append(kEndOfLine);
}

std::optional<Challenge> parse_challenge(std::string_view bytes) {
  if (bytes.size() != kChallengeBytes || !bytes.starts_with(kGreeting) || !bytes.ends_with(kEndOfLine)) {
    return std::nullopt;
  }
  bytes.remove_prefix(kGreeting.size());
  using Wants = Challenge::Wants;
  for (const auto& [word, wants] :
       {std::pair(kSecret, Wants::secret), std::pair(kOpen, Wants::nothing), std::pair(kTls, Wants::tls)}) {
    if (bytes.starts_with(word)) return Challenge{wants, std::string(bytes.substr(word.size(), kNonceBytes))};
  }
  return std::nullopt;
}

std::string print_proof_of_client(const std::string& secret, const Nonces& nonces) {
  return proof_of(kClient, secret, nonces).append(kEndOfLine);
}

bool is_proof_of_client(std::string_view bytes, const std::string& secret, const Nonces& nonces) {
  return bytes.size() == kProofMessageBytes && is_proof(bytes.substr(0, kProofBytes), secret, kClient, both(nonces));
}

std::string print_verdict(const std::optional<std::string>& secret, const Nonces& nonces) {
  const auto proof = secret ? proof_of(kServer, *secret, nonces) : std::string(kProofBytes, '0');
  return std::string(secret ? kWelcome : kRefused).append(proof).append(kEndOfLine);
}

Verdict read_verdict(std::string_view bytes, const std::string& secret, const Nonces& nonces) {
  if (bytes.size() != kVerdictBytes) return Verdict::nonsense;
  if (bytes.starts_with(kRefused)) return Verdict::refused;
  if (!bytes.starts_with(kWelcome)) return Verdict::nonsense;
  const auto proof = bytes.substr(kWelcome.size(), kProofBytes);
  return is_proof(proof, secret, kServer, both(nonces)) ? Verdict::welcome : Verdict::other_secret;
}

}  // namespace lockstep::store
