// A parser of MindSpore checkpoints: protobuf fields by hand, pieces of tensors joined by tag, CRC-32 compared.
#include <lockstep/base/text.h>
#include <lockstep/state/pth/mindspore.h>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

namespace lockstep::state {
namespace {

using namespace std::string_view_literals;

struct MindsporeType {
  std::string_view name;
  std::string_view dtype;  ///< empty: a type that no tensor has here
  std::uint64_t bytes = 0;
};

constexpr std::array<MindsporeType, 16> kTypes = {{
    {"Float32", "F32", 4},
    {"Float16", "F16", 2},
    {"Float64", "F64", 8},
    {"BFloat16", "BF16", 2},
    {"Int8", "I8", 1},
    {"Int16", "I16", 2},
    {"Int32", "I32", 4},
    {"Int64", "I64", 8},
    {"UInt8", "U8", 1},
    {"Bool", "BOOL", 1},
    {"UInt16", "", 2},
    {"UInt32", "", 4},
    {"UInt64", "", 8},
    {"Complex64", "", 8},
    {"Complex128", "", 16},
    {"Float8E4M3FN", "", 1},
}};

constexpr std::uint64_t kMostTagBytes = 4096;
constexpr std::uint64_t kMostTypeBytes = 64;
constexpr auto kChecksum = "crc_num"sv;
constexpr std::uint64_t kChecksumBytes = 17;

/// The range of one message in the file.
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  ///< of an integer
  std::optional<Span> content{};
};

/// Reads the fields of one message after the other.
class MessageFields {
 public:
  MessageFields(const ByteSource& source, Span span, const PthError& wrong)
      : source_(source), at_(span.begin), end_(span.end), wrong_(wrong) {}

  std::optional<Field> next() {
    if (at_ == end_) return std::nullopt;
    const auto key = varint();
    Field field{key >> 3U, 0, std::nullopt};
    switch (key & 7U) {
      case 0: field.value = varint(); break;
      case 1: skip(8); break;
      case 5: skip(4); break;
      case 2: {
        const auto length = varint();
        if (length > end_ - at_)
          damaged("a field of {} bytes, of which {} are there: it was cut short", length, end_ - at_);
        field.content = Span{at_, at_ + length};
        at_ += length;
        break;
      }
      default: damaged("a field of the unknown kind {}", key & 7U);
    }
    return field;
  }

 private:
  template <typename... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    wrong_("it begins as a checkpoint of MindSpore, and has {} (byte {})",
           fmt::format(format, std::forward<Args>(args)...), at_);
  }

  void skip(std::uint64_t bytes) {
    if (bytes > end_ - at_) damaged("a number that was cut short");
    at_ += bytes;
  }

  std::uint64_t varint() {
    constexpr std::size_t kLongest = 10;
    std::array<char, kLongest> bytes{};
    const auto there = static_cast<std::size_t>(std::min<std::uint64_t>(kLongest, end_ - at_));
    source_.read(at_, std::span(bytes).first(there));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < there; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << (7 * i);
      if ((byte & 0x80U) == 0) {
        at_ += i + 1;
        return value;
      }
    }
    damaged("a number that does not end");
  }

  const ByteSource& source_;
  std::uint64_t at_;
  std::uint64_t end_;
  const PthError& wrong_;
};

/// One value of the file.
struct MindsporeValue {
  std::string tag;
  bool is_tensor = false;
  bool is_map = false;
  std::string type;
  std::vector<std::int64_t> sizes;
  Span content{};
};

class MindsporeReader {
 public:
  MindsporeReader(const ByteSource& source, const PthError& wrong) : source_(source), wrong_(wrong) {}

  MindsporeFile read() {
    Span whole{0, source_.size};
    const bool has_checksum = find_checksum(whole);
    MessageFields values(source_, whole, wrong_);
    while (const auto value = values.next()) {
      if (value->number != 1 || !value->content) wrong_("it is no checkpoint of MindSpore, though it begins as one");
      take(read_value(*value->content));
    }
    finish();
    if (has_checksum && !has_maps_) compare_checksum(whole);
    return std::move(file_);
  }

 private:
  std::string text_in(const std::optional<Span>& span, std::uint64_t most, std::string_view what) const {
    if (!span || span->end - span->begin > most) wrong_("a {} is missing or too long", what);
    std::string text(span->end - span->begin, '\0');
    source_.read(span->begin, text);
    return text;
  }

  void add_size(std::uint64_t size, MindsporeValue& value) const {
    if (value.sizes.size() == kMostMindsporeSizes) {
      wrong_("tensor \"{}\" has more than {} dimensions", cut_text(value.tag), kMostMindsporeSizes);
    }
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      wrong_("tensor \"{}\" has a size that is no number from 0", cut_text(value.tag));
    }
    value.sizes.push_back(static_cast<std::int64_t>(size));
  }

  void read_tensor(Span span, MindsporeValue& value) const {
    value.is_tensor = true;
    MessageFields fields(source_, span, wrong_);
    while (const auto field = fields.next()) {
      if (field->number == 1 && !field->content) add_size(field->value, value);
      if (field->number == 1 && field->content) read_packed(*field->content, value);
      if (field->number == 2) value.type = text_in(field->content, kMostTypeBytes, "type of a tensor");
      if (field->number == 3 && field->content) value.content = *field->content;
    }
  }

  /// Packed integers: values without field numbers, one after the other.
  void read_packed(Span span, MindsporeValue& value) const {
    std::string bytes = text_in(span, kMostMindsporeSizes * 10, "list of sizes");
    std::uint64_t number = 0;
    unsigned shift = 0;
    for (const char byte : bytes) {
      if (shift > 63) wrong_("it has a size that does not end");
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(byte) & 0x7FU) << shift;
      shift += 7;
      if ((static_cast<unsigned char>(byte) & 0x80U) != 0) continue;
      add_size(number, value);
      number = 0;
      shift = 0;
    }
  }

  MindsporeValue read_value(Span span) const {
    MindsporeValue value;
    MessageFields fields(source_, span, wrong_);
    while (const auto field = fields.next()) {
      if (field->number == 1) value.tag = text_in(field->content, kMostTagBytes, "name of a parameter");
      if (field->number == 2 && field->content) read_tensor(*field->content, value);
      if (field->number == 3) value.is_map = true;
    }
    if (value.tag.empty()) wrong_("it is no checkpoint of MindSpore, though it begins as one: a value has no name");
    const bool shown =
        std::ranges::none_of(value.tag, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
    if (!shown) wrong_("the name \"{}\" has control characters", cut_text(value.tag));
    // An entry of an embedding in a cache: the parameter's name, and a number.
    if (const auto key = value.tag.find(".__param_key__"); key != std::string::npos) value.tag.resize(key);
    return value;
  }

  void take(MindsporeValue value) {
    const auto* type = std::ranges::find(kTypes, value.type, &MindsporeType::name);
    const auto other = value.is_map                ? "a table of a map parameter"
                       : !value.is_tensor          ? "no tensor"
                       : value.type == "str"       ? "a text"
                       : value.type == "random_op" ? "the state of a random generator"
                       : type == kTypes.end()      ? fmt::format("a tensor of type {}", cut_text(value.type))
                       : type->dtype.empty()       ? fmt::format("a tensor of type {}", value.type)
                                                   : std::string();
    has_maps_ = has_maps_ || value.is_map;
    if (!other.empty()) {
      finish();
      if (by_name_.contains(value.tag)) wrong_("the name \"{}\" is there twice", cut_text(value.tag));
      file_.others.emplace(value.tag, other);
      return;
    }
    // An entry of old files: a plain number.
    if (value.sizes.size() == 1 && value.sizes[0] == 0 && value.content.end - value.content.begin == type->bytes) {
      value.sizes.clear();
    }
    const MindsporeTensor::Piece piece{value.content.begin, value.content.end - value.content.begin};
    if (!file_.tensors.empty() && open_ && file_.tensors.back().name == value.tag) {
      auto& tensor = file_.tensors.back();
      if (tensor.dtype != type->dtype || tensor.sizes != value.sizes) {
        wrong_("the pieces of tensor \"{}\" have different sizes or types", cut_text(value.tag));
      }
      tensor.pieces.push_back(piece);
      return;
    }
    finish();
    if (!by_name_.emplace(value.tag, true).second || file_.others.contains(value.tag)) {
      wrong_("the name \"{}\" is there twice", cut_text(value.tag));
    }
    file_.tensors.push_back({value.tag, std::string(type->dtype), std::move(value.sizes), {piece}});
    element_bytes_ = type->bytes;
    open_ = true;
  }

  /// Ends the last tensor: no more pieces follow.
  void finish() {
    if (!std::exchange(open_, false)) return;
    const auto& tensor = file_.tensors.back();
    std::uint64_t there = 0;
    for (const auto& piece : tensor.pieces) there += piece.bytes;
    std::uint64_t limit = std::numeric_limits<std::int64_t>::max() / element_bytes_;
    auto needed = element_bytes_;
    for (const auto size : tensor.sizes) {
      limit /= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
      if (limit == 0) wrong_("tensor \"{}\" has more bytes than 64 bits can count", cut_text(tensor.name));
      needed *= static_cast<std::uint64_t>(size);
    }
    if (needed != there) {
      wrong_("tensor \"{}\" has {} bytes in the file, but its type and sizes need {}", cut_text(tensor.name), there,
             needed);
    }
  }

  bool find_checksum(Span& whole) const {
    if (whole.end < kChecksumBytes) return false;
    std::string end(kChecksum.size(), '\0');
    source_.read(whole.end - kChecksumBytes, end);
    if (end != kChecksum) return false;
    whole.end -= kChecksumBytes;
    return true;
  }

  void compare_checksum(Span whole) const {
    std::array<char, kChecksumBytes - kChecksum.size()> stored{};
    source_.read(whole.end + kChecksum.size(), stored);
    std::uint64_t expected = 0;
    for (const char byte : stored) expected = expected << 8U | static_cast<unsigned char>(byte);
    auto crc = ::crc32(0, nullptr, 0);
    std::vector<char> part(std::size_t{1} << 20);
    for (auto at = whole.begin; at < whole.end; at += part.size()) {
      const auto count = std::min<std::uint64_t>(part.size(), whole.end - at);
      source_.read(at, std::span(part).first(count));
      crc = ::crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(count));
    }
    if (crc != expected) wrong_("its checksum does not fit: the file is damaged");
  }

  const ByteSource& source_;
  const PthError& wrong_;
  MindsporeFile file_;
  std::map<std::string, bool, std::less<>> by_name_;
  std::uint64_t element_bytes_ = 1;  // of the last tensor
  bool open_ = false;                // more pieces of it may follow
  bool has_maps_ = false;
};

}  // namespace

bool is_encrypted_mindspore(std::string_view begin) {
  return begin.size() >= 4 && static_cast<unsigned char>(begin[0]) >= 0xD8 &&
         static_cast<unsigned char>(begin[0]) <= 0xDA && begin.substr(1, 3) == "\x5e\x3a\x7f"sv;
}

MindsporeFile read_mindspore_file(const ByteSource& source, const PthError& wrong) {
  std::string begin(std::min<std::uint64_t>(4, source.size), '\0');
  source.read(0, begin);
  if (is_encrypted_mindspore(begin)) {
    wrong(
        "this is an encrypted checkpoint of MindSpore; save it without encryption: load it there with dec_key, and "
        "mindspore.save_checkpoint(...) without enc_key");
  }
  return MindsporeReader(source, wrong).read();
}

}  // namespace lockstep::state
