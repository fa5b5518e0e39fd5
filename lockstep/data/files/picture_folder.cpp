// The listing of a folder of pictures without hidden files, __MACOSX and files without the extension of a picture.
#include <lockstep/base/error.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/pictures.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <system_error>

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Extensions of unsupported picture formats.
constexpr std::array<std::string_view, 9> kOtherPictures = {".gif", ".heic", ".heif", ".avif", ".jp2",
                                                            ".jxl", ".ppm",  ".svg",  ".psd"};

bool is_other_picture(const fs::path& path) {
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return std::ranges::find(kOtherPictures, ending) != kOtherPictures.end();
}

void pass_over(const fs::path& path, CountedRemarks& remarks) {
  remarks.add(LogLevel::info, "hidden or macOS's own files and folders are ignored", path.string());
}

/// Calls `seen` with each entry except those that programs left.
template <typename Iterator, typename Seen>
void for_each_own(const fs::path& folder, std::string_view key, CountedRemarks& remarks, const Seen& seen) {
  std::error_code code;
  for (Iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    std::error_code unknown;
    const bool is_folder = entry->is_directory(unknown);
    if (is_left_by_programs(entry->path())) {
      pass_over(entry->path(), remarks);
      if constexpr (std::is_same_v<Iterator, fs::recursive_directory_iterator>) {
        if (is_folder) entry.disable_recursion_pending();
      }
    } else {
      seen(entry->path(), is_folder);
    }
  }
  if (code) fail(ErrorKind::io, key, "cannot list the folder {}: {}", folder.string(), code.message());
}

}  // namespace

bool is_left_by_programs(const fs::path& path) {
  const auto name = path.filename().string();
  return name.starts_with('.') || name == "__MACOSX";
}

std::vector<std::string> pictures_in(const fs::path& folder, FolderDepth depth, std::string_view key,
                                     CountedRemarks& remarks) {
  std::vector<std::string> pictures;
  std::vector<std::string> others;  // the order of a folder's entries is the file system's
  const auto see = [&](const fs::path& path, bool is_folder) {
    if (is_folder) return;
    (has_picture_name(path.string()) ? pictures : others).push_back(path.string());
  };
  if (depth == FolderDepth::itself) {
    for_each_own<fs::directory_iterator>(folder, key, remarks, see);
  } else {
    for_each_own<fs::recursive_directory_iterator>(folder, key, remarks, see);
  }
  std::ranges::sort(pictures);
  std::ranges::sort(others);
  for (const auto& path : others) {
    if (is_other_picture(path)) {
      remarks.add(LogLevel::warning, "pictures of kinds that are not read are ignored", path);
    } else {
      remarks.add(LogLevel::info, "files are not pictures by their names and are not read", path);
    }
  }
  return pictures;
}

std::vector<std::string> folders_in(const fs::path& folder, std::string_view key, CountedRemarks& remarks) {
  std::vector<std::string> names;
  for_each_own<fs::directory_iterator>(folder, key, remarks, [&](const fs::path& path, bool is_folder) {
    if (is_folder) names.push_back(path.filename().string());
  });
  std::ranges::sort(names);
  return names;
}

}  // namespace lockstep::data
