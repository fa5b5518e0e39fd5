// A bounds-checked reader of LMDB's B+ tree: the newer of two meta pages, branch and leaf pages, overflow pages.
#include <lockstep/base/error.h>
#include <lockstep/base/text.h>
#include <lockstep/data/files/lmdb.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::data {
namespace {

constexpr std::uint64_t kPageHeader = 16;  // page number, padding, flags, bounds of the free space
constexpr std::uint64_t kNodeHeader = 8;
constexpr std::uint64_t kNoRoot = ~std::uint64_t{0};
constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kVersion = 1;

enum PageFlags : std::uint16_t { kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08 };
enum NodeFlags : std::uint16_t { kBigData = 0x01, kSubData = 0x02, kDuplicates = 0x04 };

template <typename T>
T number_at(const std::uint8_t* at) {
  T value{};
  for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | at[i]);
  return value;
}

// Thrown internally, where the key is not known.
struct Damage {
  std::string what;
};

template <typename... Args>
[[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) {
  throw Damage{fmt::format(format, std::forward<Args>(args)...)};
}

/// One page; its nodes are checked against its end.
class Page {
 public:
  Page(std::span<const std::uint8_t> file, std::uint64_t page_size, std::uint64_t number) : number_(number) {
    if (number >= file.size() / page_size) {
      damaged("page {} is referenced, and the file has {}", number, file.size() / page_size);
    }
    bytes_ = file.subspan(number * page_size, page_size);
    if (number_at<std::uint64_t>(bytes_.data()) != number) damaged("page {} has another number", number);
  }

  bool is(PageFlags flag) const { return (number_at<std::uint16_t>(&bytes_[10]) & flag) != 0; }

  std::uint64_t nodes() const {
    const auto lower = number_at<std::uint16_t>(&bytes_[12]);
    if (lower < kPageHeader || lower > bytes_.size()) damaged("page {} has impossible bounds", number_);
    return (lower - kPageHeader) / 2;
  }

  std::span<const std::uint8_t> node(std::uint64_t index) const {
    const std::uint64_t offset = number_at<std::uint16_t>(&bytes_[kPageHeader + 2 * index]);
    if (offset < kPageHeader || offset + kNodeHeader > bytes_.size())
      damaged("page {} has a node outside of it", number_);
    const auto rest = bytes_.subspan(offset);
    if (kNodeHeader + number_at<std::uint16_t>(&rest[6]) > rest.size())
      damaged("page {} has a key outside of it", number_);
    return rest;
  }

  std::uint32_t overflow_pages() const { return number_at<std::uint32_t>(&bytes_[12]); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::uint64_t number_;
};

std::string_view key_of(std::span<const std::uint8_t> node) {
  return {reinterpret_cast<const char*>(&node[0]) + kNodeHeader, number_at<std::uint16_t>(&node[6])};
}

std::uint64_t child_of(std::span<const std::uint8_t> node) {
  return number_at<std::uint32_t>(&node[0]) | std::uint64_t{number_at<std::uint16_t>(&node[4])} << 32;
}

/// The first node from `first` on whose key is not below `key`.
std::uint64_t lower_bound(const Page& page, std::uint64_t first, std::string_view key) {
  std::uint64_t low = first;
  std::uint64_t high = std::max(first, page.nodes());
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (key_of(page.node(middle)) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::span<const std::uint8_t> value_of(std::span<const std::uint8_t> node, std::span<const std::uint8_t> file,
                                       std::uint64_t page_size) {
  const auto flags = number_at<std::uint16_t>(&node[4]);
  const std::uint64_t size = number_at<std::uint32_t>(&node[0]);
  const auto data = node.subspan(kNodeHeader + key_of(node).size());
  if ((flags & (kSubData | kDuplicates)) != 0) damaged("the value is a database of its own");
  if ((flags & kBigData) == 0) {
    if (size > data.size()) damaged("the value of {} bytes is longer than its page", size);
    return data.first(size);
  }
  if (data.size() < sizeof(std::uint64_t)) damaged("the value's page number is cut off");
  const auto number = number_at<std::uint64_t>(data.data());
  const Page page(file, page_size, number);
  if (!page.is(kOverflow)) damaged("page {} should hold a long value, and does not", number);
  const auto rest = file.subspan(number * page_size);
  if (size + kPageHeader > std::uint64_t{page.overflow_pages()} * page_size || size + kPageHeader > rest.size()) {
    damaged("the value of {} bytes is longer than its {} pages", size, page.overflow_pages());
  }
  return rest.subspan(kPageHeader, size);
}

std::filesystem::path file_of(const std::filesystem::path& path, std::string_view key) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return path;
  if (std::filesystem::exists(path / "data.mdb", code)) return path / "data.mdb";
  fail(ErrorKind::config, key, "the folder {} has no data.mdb; give the folder of an LMDB database", path.string());
}

}  // namespace

struct LmdbView::Meta {
  std::uint32_t page_size;
  std::uint16_t flags;
  std::uint16_t depth;
  std::uint64_t entries;
  std::uint64_t root;
  std::uint64_t last_page;
  std::uint64_t transaction;
};

// After the page's header: magic, version, address, size of the map, two databases of 48 bytes (free pages, main), the
// last page, the transaction.
std::optional<LmdbView::Meta> LmdbView::read_meta(std::uint64_t offset) const {
  constexpr std::uint64_t kSize = kPageHeader + 24 + 2 * 48 + 16;
  if (offset + kSize > bytes_.size()) return std::nullopt;
  const auto* meta = &bytes_[offset + kPageHeader];
  if (number_at<std::uint32_t>(meta) != kMagic || number_at<std::uint32_t>(meta + 4) != kVersion) return std::nullopt;
  const auto* free = meta + 24;
  const auto* main = free + 48;
  return Meta{number_at<std::uint32_t>(free),         number_at<std::uint16_t>(main + 4),
              number_at<std::uint16_t>(main + 6),     number_at<std::uint64_t>(main + 32),
              number_at<std::uint64_t>(main + 40),    number_at<std::uint64_t>(main + 48),
              number_at<std::uint64_t>(main + 48 + 8)};
}

LmdbView::LmdbView(std::span<const std::uint8_t> bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {
  const auto refuse = [this](std::string_view why) { fail(ErrorKind::data, "lmdb", "{} {}", name_, why); };
  auto meta = read_meta(0);
  if (!meta) refuse("is no LMDB file of version 1 (64-bit, little-endian)");
  const auto size = meta->page_size;
  if (size < 512 || size > 65536 || (size & (size - 1)) != 0) refuse(fmt::format("has pages of {} bytes", size));
  // Transactions write the first two pages in turn: the newer page counts.
  if (const auto other = read_meta(size); other && other->page_size == size && other->transaction > meta->transaction) {
    meta = other;
  }
  page_size_ = size;
  if (meta->last_page >= bytes.size() / size) {
    refuse(fmt::format("has {} bytes, and its {} pages of {} need more: it is cut off", bytes.size(),
                       meta->last_page + 1, size));
  }
  constexpr std::uint16_t kReverse = 0x02, kSorted = 0x04, kNumbers = 0x08;
  if ((meta->flags & (kReverse | kSorted | kNumbers)) != 0) {
    refuse(
        "has a database of another kind (reverse keys, numbers as keys, or sorted duplicates); texts as keys, with "
        "one value each, can be read");
  }
  root_ = meta->root;
  depth_ = meta->depth;
  entries_ = meta->entries;
}

std::optional<std::span<const std::uint8_t>> LmdbView::find(std::string_view key) const {
  if (root_ == kNoRoot) return std::nullopt;
  try {
    auto number = root_;
    for (std::uint64_t level = 0; level < depth_; ++level) {
      const Page page(bytes_, page_size_, number);
      if (page.is(kLeaf)) {
        const auto index = lower_bound(page, 0, key);
        if (index >= page.nodes() || key_of(page.node(index)) != key) return std::nullopt;
        return value_of(page.node(index), bytes_, page_size_);
      }
      if (!page.is(kBranch) || page.nodes() == 0) damaged("page {} is no page of keys", number);
      // The first node stands for all keys below the second.
      auto index = lower_bound(page, 1, key);
      if (index >= page.nodes() || key_of(page.node(index)) != key) --index;
      number = child_of(page.node(index));
    }
    damaged("its tree is deeper than the {} levels of its header", depth_);
  } catch (const Damage& damage) {
    fail(ErrorKind::data, "lmdb", "{} is damaged, and key '{}' cannot be read: {}", name_, cut_text(key), damage.what);
  }
}

LmdbFile::LmdbFile(const std::filesystem::path& path, std::string_view key_of_path)
    : file_(file_of(path, key_of_path), key_of_path), view_(file_.bytes(), file_.name()) {}

}  // namespace lockstep::data
