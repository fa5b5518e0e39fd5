// Stand-ins for text detection's parts in a build without OpenCV: names whose options and functions throw.
#include <apps/ocr/missing_parts.h>

#include <lockstep/base/config.h>
#include <lockstep/base/error.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::ocr {
namespace {

struct Missing {
  std::string name;
};

[[noreturn]] void fail_missing(const std::string& name) {
  fail(ErrorKind::unsupported, "ocr",
       "'{}' needs OpenCV's imgproc and Clipper 6, and this Lockstep was built without them; install Debian's "
       "libopencv-imgproc-dev and libpolyclipping-dev, and build it again with -DLOCKSTEP_WITH_OCR=ON",
       name);
}

void describe(ConfigFields& fields, Missing& options) {
  if (fields.purpose() == ConfigFields::Purpose::reading) fail_missing(options.name);
}

/// Options are read before a part is made, unless a program sets the names itself.
template <typename Part, typename Result, typename... Arguments>
void add(std::vector<Part>& parts, const std::string& name, std::function<Result(Arguments...)> Part::*maker) {
  Part part{};
  part.name = name;
  part.doc = "not in this build: needs OpenCV and Clipper";
  part.options = PartOptions::of(Missing{name});
  part.*maker = [name](Arguments...) -> Result { fail_missing(name); };
  parts.push_back(std::move(part));
}

}  // namespace

void add_missing_parts(train::Parts& parts) {
  train::ModelPart dbnet{.name = "dbnet", .doc = "not in this build: needs OpenCV and Clipper"};
  dbnet.options = PartOptions::of(Missing{dbnet.name});
  dbnet.make = [](const PartOptions&) -> train::ModelMaker::Module { fail_missing("dbnet"); };
  parts.models.push_back(std::move(dbnet));
  add(parts.data, "text_boxes", &train::DataPart::load);
  add(parts.tasks, "text_detection", &train::TaskPart::make);
  for (const auto* name : {"text_random_flip", "text_random_rotate", "text_random_scale", "text_random_crop",
                           "text_resize", "text_shrink_map", "text_border_map"}) {
    add(parts.transforms, name, &samples::TransformPart::make);
  }
}

}  // namespace lockstep::ocr
