// A parser of the zip directory from the end of the file, with zip64, bounds checks and CRC-32 of entries.
#include <lockstep/base/text.h>
#include <lockstep/state/pth/zip_entries.h>

#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep::state {
namespace {

using namespace std::string_view_literals;

// Sizes of the records without the texts at their ends, in bytes.
constexpr std::uint64_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr std::uint64_t kDirectoryEntryBytes = 46, kHeaderBytes = 30;
constexpr std::uint64_t kMostDirectory = 100'000'000;  // as a safetensors header: memory that nothing else bounds
constexpr std::uint64_t kIn64Bits = 0xFFFFFFFF;        // a field of 32 bits whose value is in the zip64 part

constexpr auto kEndMark = "PK\x05\x06"sv, kLocatorMark = "PK\x06\x07"sv, kEnd64Mark = "PK\x06\x06"sv;
constexpr auto kDirectoryMark = "PK\x01\x02"sv, kHeaderMark = "PK\x03\x04"sv;

/// The little-endian number of `width` bytes at `at`, which is within `bytes`.
std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i > 0; --i) value = value << 8U | static_cast<unsigned char>(bytes[at + i - 1]);
  return value;
}

std::string read_text(const ByteSource& source, std::uint64_t from, std::uint64_t size) {
  std::string text(size, '\0');
  source.read(from, text);
  return text;
}

/// The position of the directory.
struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

/// The offset of the end record: the last one whose comment fills the rest of the file.
std::uint64_t find_end(const ByteSource& source, const PthError& wrong) {
  const auto tail_bytes = std::min(source.size, kEndBytes + kLongestComment);
  const auto tail = read_text(source, source.size - tail_bytes, tail_bytes);
  for (auto at = tail.rfind(kEndMark); at != std::string::npos; at = at == 0 ? at - 1 : tail.rfind(kEndMark, at - 1)) {
    if (at + kEndBytes <= tail.size() && number(tail, at + 20, 2) == tail.size() - at - kEndBytes) {
      return source.size - tail_bytes + at;
    }
  }
  wrong(
      "this is not a whole zip archive, which torch.save writes: its end is missing. It was cut short, or is another "
      "kind of file");
}

Directory find_directory(const ByteSource& source, const PthError& wrong) {
  auto end = find_end(source, wrong);
  const auto record = read_text(source, end, kEndBytes);
  Directory found{number(record, 16, 4), number(record, 12, 4), number(record, 10, 2)};
  const auto locator = end >= kLocatorBytes ? read_text(source, end - kLocatorBytes, kLocatorBytes) : std::string();
  if (locator.starts_with(kLocatorMark)) {
    const auto at = number(locator, 8, 8);
    if (end - kLocatorBytes < kEnd64Bytes || at > end - kLocatorBytes - kEnd64Bytes) {
      wrong("the zip64 end record is not in the file: it is damaged");
    }
    const auto long_record = read_text(source, at, kEnd64Bytes);
    if (!long_record.starts_with(kEnd64Mark)) wrong("the zip64 end record has no signature: the file is damaged");
    found = {number(long_record, 48, 8), number(long_record, 40, 8), number(long_record, 32, 8)};
    end = at;
  }
  if (found.begin > end || found.size > end - found.begin) {
    wrong("the directory of the zip archive lies outside of the file: it is damaged or was cut short");
  }
  if (found.size > kMostDirectory) {
    wrong("the directory of the zip archive has {} bytes; at most {} are read", found.size, kMostDirectory);
  }
  return found;
}

/// An entry of the directory; its bytes begin after its local header at `header`.
struct Listed {
  std::string name;
  std::uint64_t header = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  std::uint64_t method = 0;  // of compression
};

/// Replaces the values that are kIn64Bits by those of the zip64 part of `extra`, which has them in this order.
void take_64_bits(std::string_view extra, std::initializer_list<std::uint64_t*> values, const Listed& entry,
                  const PthError& wrong) {
  std::string_view part;
  while (extra.size() >= 4) {
    const auto size = number(extra, 2, 2);
    if (size > extra.size() - 4) break;
    if (number(extra, 0, 2) == 1) part = extra.substr(4, size);
    extra.remove_prefix(4 + size);
  }
  for (auto* value : values) {
    if (*value != kIn64Bits) continue;
    if (part.size() < 8) wrong("the sizes of the entry \"{}\" are missing: the file is damaged", cut_text(entry.name));
    *value = number(part, 0, 8);
    part.remove_prefix(8);
  }
}

/// Takes one entry from the beginning of `directory`.
Listed take_entry(std::string_view& directory, const PthError& wrong) {
  if (directory.size() < kDirectoryEntryBytes || !directory.starts_with(kDirectoryMark)) {
    wrong("the directory of the zip archive is damaged");
  }
  const auto name_bytes = number(directory, 28, 2), extra_bytes = number(directory, 30, 2);
  const auto bytes = kDirectoryEntryBytes + name_bytes + extra_bytes + number(directory, 32, 2);
  if (bytes > directory.size()) wrong("the directory of the zip archive is damaged");
  Listed entry{std::string(directory.substr(kDirectoryEntryBytes, name_bytes)), number(directory, 42, 4),
               number(directory, 20, 4), static_cast<std::uint32_t>(number(directory, 16, 4)),
               number(directory, 10, 2)};
  if ((number(directory, 8, 2) & 1U) != 0) wrong("the entry \"{}\" is encrypted", cut_text(entry.name));
  auto unpacked = number(directory, 24, 4);
  take_64_bits(directory.substr(kDirectoryEntryBytes + name_bytes, extra_bytes),
               {&unpacked, &entry.size, &entry.header}, entry, wrong);
  if (entry.method == 0 && unpacked != entry.size)
    wrong("the entry \"{}\" has two sizes: the file is damaged", cut_text(entry.name));
  directory.remove_prefix(bytes);
  return entry;
}

/// The offset of the entry's bytes. They and the header before them must end at `limit`.
std::uint64_t begin_of(const Listed& entry, std::uint64_t limit, const ByteSource& source, const PthError& wrong) {
  const auto outside = [&] {
    wrong("the entry \"{}\" reaches beyond its place: the file is damaged or was cut short", cut_text(entry.name));
  };
  const auto fixed = kHeaderBytes + entry.name.size();
  if (entry.header > limit || limit - entry.header < fixed) outside();
  const auto header = read_text(source, entry.header, fixed);
  if (!header.starts_with(kHeaderMark) || number(header, 8, 2) != entry.method ||
      number(header, 26, 2) != entry.name.size() || header.substr(kHeaderBytes) != entry.name) {
    wrong("the header of the entry \"{}\" does not fit the directory: the file is damaged", cut_text(entry.name));
  }
  const auto begin = entry.header + fixed + number(header, 28, 2);
  if (begin > limit || limit - begin < entry.size) outside();
  return begin;
}

}  // namespace

ZipEntries read_zip_entries(const ByteSource& source, const PthError& wrong) {
  const auto place = find_directory(source, wrong);
  const auto text = read_text(source, place.begin, place.size);
  std::string_view directory = text;
  std::vector<Listed> listed;
  while (!directory.empty()) listed.push_back(take_entry(directory, wrong));
  if (listed.size() != place.entries) {
    wrong("the directory of the zip archive names {} entries and has {}: it is damaged", place.entries, listed.size());
  }
  std::ranges::sort(listed, {}, &Listed::header);
  ZipEntries entries;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const auto& entry = listed[i];
    // The next entry's offset is from the file and not checked yet.
    const auto limit = i + 1 < listed.size() ? std::min(listed[i + 1].header, place.begin) : place.begin;
    const ZipEntry found{begin_of(entry, limit, source, wrong), entry.size, entry.crc, entry.method != 0};
    if (!entries.emplace(entry.name, found).second) wrong("the entry \"{}\" is there twice", cut_text(entry.name));
  }
  return entries;
}

void require_stored(const ZipEntry& entry, std::string_view name, const PthError& wrong) {
  if (!entry.compressed) return;
  wrong(
      "the entry \"{}\" is compressed, which torch.save never does: this is another kind of file, or it was packed "
      "again; {}",
      cut_text(name), kSavePlainly);
}

void read_zip_entry(const ByteSource& source, const ZipEntry& entry, std::span<char> into, std::string_view name,
                    const PthError& wrong) {
  require_stored(entry, name, wrong);
  source.read(entry.begin, into);
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(into.data()), into.size());
  if (crc == entry.crc) return;
  wrong(
      "the entry \"{}\" is damaged: its checksum does not fit. Copy the file again (if Python wrote it after "
      "torch.serialization.set_crc32_options(False), write it without that)",
      cut_text(name));
}

}  // namespace lockstep::state
