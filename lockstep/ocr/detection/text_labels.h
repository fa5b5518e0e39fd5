// Labels of text in pictures: files in MindOCR's form, and ICDAR's own.
#pragma once

#include <lockstep/ocr/detection/targets.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::ocr {

/// The words of one picture, and where they are written.
struct LabelledPicture {
  std::string name;  ///< as the label file has it
  Words words;
  std::string label_file;
  int line = 0;
};

/// A line `img_61.jpg<TAB>[{"transcription": "MASA", "points": [[310,104], ...]}, ...]`. The text `###` or `*` is an
/// ignored word; other keys are passed over. Error(data), without a position, for anything else: no tab, no such JSON,
/// fewer than three corners, a coordinate that is no number or farther than 100000 from 0.
LabelledPicture parse_label_line(std::string_view line);

/// A line `x1,y1,...,x4,y4,text` of ICDAR's files. Errors as above.
Word parse_icdar_line(std::string_view line);

/// Runs `read`; returns false where it threw Error(data) that the caller passes over. See data::BadItems.
using TryTo = std::function<bool(const std::function<void()>& read)>;

/// A file of such lines, UTF-8 with LF or CR LF. Errors have its name and line. `key` is the configuration key that
/// names the file.
std::vector<LabelledPicture> read_label_file(const std::filesystem::path& file, std::string_view key,
                                             const TryTo& try_to);

/// A folder with a file `gt_NAME.txt` of ICDAR's for each picture NAME.jpg, .jpeg or .png in `pictures`, in the order
/// of their names. Error(data) where a picture has no such file.
std::vector<LabelledPicture> read_icdar_folder(const std::filesystem::path& folder,
                                               const std::filesystem::path& pictures, std::string_view key,
                                               const TryTo& try_to);

}  // namespace lockstep::ocr
