// Labels of text in pictures: files in MindOCR's form, and ICDAR's own.
#pragma once

#include <lockstep/data/files/bad_items.h>
#include <lockstep/ocr/detection/targets.h>

#include <filesystem>
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

/// A line `img_61.jpg<TAB>[{"transcription": "MASA", "points": [[310,104], ...]}, ...]`, as MindOCR's and PaddleOCR's
/// lists have them. The text `###` or `*` is an ignored word; other keys are passed over. Error(data), without a
/// position, for anything else: no tab, no such JSON, fewer than three corners, a coordinate that is no number or
/// farther than 100000 from 0.
LabelledPicture parse_label_line(std::string_view line);

/// How a line of ICDAR's files has its word. Blanks around numbers say nothing.
enum class WordForm {
  icdar2015,  ///< x1,y1,...,x4,y4,text, which may have commas
  mlt,        ///< x1,y1,...,x4,y4,script,text
  icdar2013   ///< left top right bottom "text", with blanks or commas between
};

/// Errors as above.
Word parse_icdar_line(std::string_view line, WordForm form = WordForm::icdar2015);

/// What a file is read as, and what happens to what cannot be read.
struct LabelReading {
  std::string key;              ///< the configuration key that names the file
  std::string labels = "auto";  ///< data.labels
  data::BadItems& bad;          ///< pictures whose words cannot be used
};

/// A file of such lines, UTF-8 with LF or CR LF. Errors have its name and line. Where bad items are left out, a word
/// that cannot be read becomes one that is ignored, around the corners that can be read; a picture is left out where no
/// word of it can be read, or not even a place. The log says so, and which polygons were mended (untangled(), or
/// ignored).
std::vector<LabelledPicture> read_label_file(const std::filesystem::path& file, const LabelReading& reading);

/// A folder with a file `gt_NAME.txt` or NAME.txt of ICDAR's for each picture of the folder `pictures`, in the order of
/// their names. The form is that of most lines of all files, unless data.labels says it; the log has it where it is not
/// that of 2015. Error(data) where a picture has no such file; Error(config) for files of other programs, by name.
std::vector<LabelledPicture> read_icdar_folder(const std::filesystem::path& folder,
                                               const std::filesystem::path& pictures, const LabelReading& reading);

}  // namespace lockstep::ocr
