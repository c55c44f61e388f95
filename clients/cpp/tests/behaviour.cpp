// What the header promises, checked in a scratch folder that the caller names. Exits with the number of failed checks.
#include "../firstdiff.hpp"
#include "../firstdiff_rng.hpp"

#include <iostream>
#include <set>
#ifndef _WIN32
#include <unistd.h>
#endif

using namespace firstdiff;
namespace fs = std::filesystem;

static int failures = 0;
#define EXPECT(condition) (condition) ? void() : void((++failures, std::cerr << __FILE__ << ":" << __LINE__ << ": " << #condition << "\n"))

static std::string text(const std::string& path) { return detail::read_file(path).value_or("<none>"); }
static bool holds(const std::string& whole, const std::string& part) {
  const bool found = whole.find(part) != std::string::npos;
  if (!found) std::cerr << "not in: " << whole << "\n";
  return found;
}
static std::set<std::string> files(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) names.insert(item.path().filename().string());
  return names;
}

static void nothing_is_recorded_without_a_folder() {
  unsetenv("FIRSTDIFF_TRACE");
  Recorder recorder;
  EXPECT(!recorder.enabled());
  EXPECT(recorder.tap("x", static_cast<const float*>(nullptr), 100, {100}));  // the values are not touched
  EXPECT(recorder.close());
}

static void the_environment_is_honoured(const std::string& scratch) {
  setenv("FIRSTDIFF_TRACE", (scratch + "/environment").c_str(), 1);
  setenv("FIRSTDIFF_INPUT", "inputs/\"short\"", 1);
  setenv("FIRSTDIFF_ONLY", " layers.*.mlp , logit?,b[0-3x] ,c[!a-z]", 1);
  {
    Recorder recorder;
    const float one = 1;
    for (const char* name : {"layers.0.mlp", "layers.0.attn", "logits", "logits2", "b2", "bx", "b7", "c1", "cc", "mel"}) EXPECT(recorder.tap(name, &one, 1, {}));
  }
  for (const char* name : {"FIRSTDIFF_TRACE", "FIRSTDIFF_ONLY", "FIRSTDIFF_INPUT"}) unsetenv(name);
  EXPECT(holds(text(scratch + "/environment/trace.json"), "\"input\": \"inputs/\\u0022short\\u0022\", \"complete\": true"));
  std::string names;
  for (const Entry& entry : Golden(scratch + "/environment").entries) names += entry.name + " ";
  EXPECT(names == "layers.0.mlp logits b2 bx c1 ");
}

static void values_are_on_disk_when_tap_returns(const std::string& scratch) {
  Recorder recorder(scratch + "/copied");
  float buffer[2] = {1, 2};
  recorder.tap("a", buffer, 2, {2});
  buffer[0] = 9;
  Validator validator(scratch + "/copied");
  const float expected[2] = {1, 2};
  EXPECT(validator.check("a", expected, 2, {2}).status == Status::pass);
  EXPECT(!validator.golden.complete);
}

static void names_are_never_paths(const std::string& scratch) {
  const std::vector<std::string> names = {"../../x", "a/b\\c", "..", "", "C:\\x", "line\nbreak", std::string("nul\0", 4), "\"quoted\"", "日本語 🧮"};
  {
    Recorder recorder(scratch + "/names");
    const int32_t one = 1;
    for (const auto& name : names) EXPECT(recorder.tap(name, &one, 1, {1}));
  }
  const Golden golden(scratch + "/names");
  EXPECT(golden.complete && golden.entries.size() == names.size());
  for (size_t index = 0; index < names.size() && index < golden.entries.size(); ++index) EXPECT(golden.entries[index].name == names[index]);
  EXPECT(files(scratch + "/names").size() == names.size() + 2);
}

static void bad_taps_leave_the_trace_as_it_was(const std::string& scratch) {
  Recorder recorder(scratch + "/bad");
  const float values[4] = {1, NAN, INFINITY, -0.0f};
  EXPECT(recorder.tap("good", values, 4, {2, 2}));
  EXPECT(!recorder.tap("bad", values, 4, {3}) && recorder.error() == "bad has 4 elements, but its shape is [3]");
  EXPECT(!recorder.tap("bad", values, 4, {-4}));
  EXPECT(!recorder.tap("bad", values, 4, {int64_t{1} << 62, int64_t{1} << 62}));
  EXPECT(!recorder.tap_bytes("bad", "string", values, 4, {1}) && holds(recorder.error(), "bad has the type string"));
  Fields fields;
  fields.slot = "a:b";
  EXPECT(!recorder.tap("bad", values, 4, {4}, fields));
  EXPECT(recorder.tap("nan", values, 4, {4}));
  EXPECT(recorder.close());
  EXPECT(Golden(scratch + "/bad").entries.size() == 2 && files(scratch + "/bad").size() == 4);
  EXPECT(holds(text(scratch + "/bad/trace.json"), "\"complete\": true, \"tensors\": 2"));
}

static void folders_that_cannot_be_written_are_said(const std::string& scratch) {
  std::ofstream(scratch + "/file") << "x";
  Recorder below(scratch + "/file/t");
  EXPECT(!below.enabled() && holds(below.error(), "cannot write a trace to " + scratch + "/file/t ("));
  EXPECT(!below.close());
  fs::create_directories(scratch + "/blocked/tensors.jsonl");
  Recorder blocked(scratch + "/blocked");
  EXPECT(!blocked.enabled() && !fs::exists(scratch + "/blocked/trace.json"));
  { Recorder first(scratch + "/twice"); }
  Recorder second(scratch + "/twice");
  EXPECT(!second.enabled() && holds(second.error(), "holds a trace already"));
  EXPECT(holds(text(scratch + "/twice/trace.json"), "\"complete\": true"));
}

static void a_full_disk_ends_the_trace(const std::string& scratch) {
  if (!fs::exists("/dev/full")) return;
  for (const std::string torn : {"000001.npy", "tensors.jsonl"}) {
    const std::string folder = scratch + "/full-" + torn;
    fs::create_directories(folder);
    fs::create_symlink("/dev/full", folder + "/" + torn);
    Recorder recorder(folder);
    const std::vector<double> values(100000, 1.0);
    const bool first = recorder.tap("first", values.data(), values.size(), {100000});
    EXPECT(first == (torn == "000001.npy"));
    EXPECT(!recorder.tap("second", values.data(), values.size(), {100000}) && !recorder.tap("third", values.data(), 1, {1}));
    EXPECT(holds(recorder.error(), "an earlier tensor could not be written"));
    EXPECT(!recorder.close());
    EXPECT(holds(text(folder + "/trace.json"), "\"complete\": false, \"error\": \"cannot write "));
    EXPECT(holds(text(folder + "/trace.json"), "No space left on device"));
    if (first) EXPECT(Golden(folder).entries.size() == 1);
    EXPECT(files(folder).count("000001.npy") == 0 && files(folder).count("000000.npy") == size_t(first));
  }
}

static void verdicts_are_told_apart(const std::string& scratch) {
  const float golden[4] = {1, 2, NAN, 4};
  const int64_t ids[2] = {50256, int64_t{1} << 62};
  const uint16_t halves[2] = {0x3f80, 0xff80};
  {
    Recorder recorder(scratch + "/golden");
    recorder.tap("x", golden, 4, {2, 2});
    recorder.tap("y", golden, 2, {2});
    recorder.tap("ids", ids, 2, {2});
    recorder.tap_bytes("h", "bfloat16", halves, 4, {2});
    recorder.tap("empty", golden, 0, {0});
  }
  Validator validator(scratch + "/golden", 1e-4, 1e-3, true);
  EXPECT(!validator.all_passed() && holds(validator.summary(), "nothing was validated, which is not a pass (atol 0.0001, rtol 0.001)"));
  const float near[2] = {1, 2.001f}, far[2] = {1, 9}, bad[2] = {NAN, 2};
  EXPECT(validator.check("y", near, 2, {2}).text == "pass   y [2] max 0.001 mean 0.0005, 0 of 2 beyond, 0 NaN, 0 Inf (atol 0.0001, rtol 0.001)");
  EXPECT(validator.check("empty", far, 0, {0}).status == Status::pass);
  EXPECT(validator.all_passed());
  EXPECT(holds(validator.check("y", far, 2, {2}).text, "VALUE  y [2] max 7 mean 3.5, 1 of 2 beyond"));
  EXPECT(holds(validator.results.back().text, "\n       [1] 9.000000, golden 2.000000"));
  EXPECT(validator.check("y", bad, 2, {2}).nan == 1 && validator.results.back().status == Status::value);
  EXPECT(validator.check("x", golden, 4, {2, 2}).status == Status::value && validator.results.back().nan == 1);
  EXPECT(validator.check("x", golden, 4, {4}).text == "SHAPE  x is [4], golden is [2, 2] (atol 0.0001, rtol 0.001)");
  const int64_t other[2] = {50257, (int64_t{1} << 62) + 1};
  EXPECT(validator.check("ids", other, 2, {2}).beyond == 2 && validator.results.back().max == 1 && holds(validator.results.back().text, "(exact)"));
  const float wide[2] = {1, -INFINITY};
  EXPECT(validator.check("h", wide, 2, {2}).inf == 1 && validator.results.back().beyond == 0);
  EXPECT(validator.check("h", wide, 2, {3}).status == Status::error);
  EXPECT(holds(validator.check("absent", wide, 2, {2}).text, "ERROR  absent: " + scratch + "/golden has no tensor absent"));
  EXPECT(validator.check("../golden/x", wide, 2, {2}).status == Status::error);
  EXPECT(!validator.all_passed());
}

static void damaged_golden_data_is_an_error(const std::string& scratch) {
  const std::string folder = scratch + "/damaged";
  const double values[3] = {1, 2, 3};
  { Recorder recorder(folder); recorder.tap("a", values, 3, {3}); }
  const std::string whole = text(folder + "/000000.npy");
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(folder + "/000000.npy", std::ios::binary | std::ios::trunc).write(whole.data(), std::streamsize(size));
    EXPECT(Validator(folder).check("a", values, 3, {3}).status == Status::error);
  }
  for (size_t at = 0; at < whole.size(); ++at) {  // no damage may do more than fail
    std::string damaged = whole;
    damaged[at] = char(damaged[at] ^ 0x15);
    std::ofstream(folder + "/000000.npy", std::ios::binary | std::ios::trunc).write(damaged.data(), std::streamsize(damaged.size()));
    Validator(folder).check("a", values, 3, {3});
  }
  const std::string line = text(folder + "/tensors.jsonl");
  for (size_t size = 0; size < line.size(); ++size) {
    std::ofstream(folder + "/tensors.jsonl", std::ios::trunc).write(line.data(), std::streamsize(size));
    EXPECT(Golden(folder).entries.size() == size_t(size + 1 == line.size()));
  }
  std::ofstream(folder + "/tensors.jsonl", std::ios::trunc) << "{\"name\": \"a\", \"file\": \"../golden/000000.npy\"}\n[1]\nrubbish\n{\"name\": \"\\ud83e\\uddee\\u00e9\", \"attrs\": {\"name\": [\"}\"]}, \"file\": \"x.npy\"}\n";
  EXPECT(Validator(folder).check("a", values, 3, {3}).status == Status::error);
  EXPECT(Golden(folder).entries.size() == 2 && Golden(folder).entries[1].name == "🧮é");
  EXPECT(Validator(scratch + "/nowhere").check("a", values, 3, {3}).status == Status::error);
}

static void plain_folders_are_searched(const std::string& scratch) {
  const std::string folder = scratch + "/plain";
  const double values[1] = {1};
  { Recorder recorder(scratch + "/one"); recorder.tap("a", values, 1, {1}); }
  for (const char* path : {"/enc/0/mel.npy", "/enc/x.npy", "/dec/x.npy"}) {
    fs::create_directories(fs::path(folder + path).parent_path());
    fs::copy_file(scratch + "/one/000000.npy", folder + path);
  }
  Validator validator(folder);
  for (const char* name : {"enc/0/mel", "enc.0.mel", "mel"}) EXPECT(validator.check(name, values, 1, {1}).status == Status::pass);
  EXPECT(holds(validator.check("x", values, 1, {1}).text, "several tensors x"));
}

static void the_first_divergence_is_found_by_bisection(const std::string& scratch) {
  std::vector<std::string> names;
  {
    Recorder recorder(scratch + "/layers");
    for (int32_t layer = 0; layer < 100; ++layer) {
      names.push_back("layer." + std::to_string(layer));
      recorder.tap(names.back(), &layer, 1, {1});
    }
  }
  for (const int32_t first : {0, 1, 37, 99, 100}) {
    int computed = 0;
    Validator validator(scratch + "/layers");
    const auto found = validator.find_divergence(names, [&](const std::string& name) {
      ++computed;
      const int32_t layer = std::stoi(name.substr(6)), value = layer >= first ? layer + 1 : layer;
      Tensor tensor{"int32", {1}, std::vector<unsigned char>(4)};
      std::memcpy(tensor.bytes.data(), &value, 4);
      return tensor;
    });
    EXPECT(found ? found->name == "layer." + std::to_string(first) : first == 100);
    EXPECT(computed <= 8);
  }
  Validator validator(scratch + "/layers");
  EXPECT(validator.find_divergence(names, [](const std::string&) { return Tensor{}; })->status == Status::error);
}

int main(int, char** arguments) {
  const std::string scratch = arguments[1];
  nothing_is_recorded_without_a_folder();
  the_environment_is_honoured(scratch);
  values_are_on_disk_when_tap_returns(scratch);
  names_are_never_paths(scratch);
  bad_taps_leave_the_trace_as_it_was(scratch);
  folders_that_cannot_be_written_are_said(scratch);
  a_full_disk_ends_the_trace(scratch);
  verdicts_are_told_apart(scratch);
  damaged_golden_data_is_an_error(scratch);
  plain_folders_are_searched(scratch);
  the_first_divergence_is_found_by_bisection(scratch);
  return failures;
}
