// firstdiff.hpp: record the tensors of a run, and check them against golden data.
// One header, C++17, no dependencies, no exceptions of its own. https://github.com/firstdiff/firstdiff
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace firstdiff {
// A shape that points at somebody's numbers: making one allocates nothing.
struct Shape {
  const int64_t* sizes; size_t rank;
  Shape(const int64_t* first, size_t count) : sizes(first), rank(count) {}
  Shape(std::initializer_list<int64_t> list) : Shape(list.begin(), list.size()) {}
  Shape(const std::vector<int64_t>& list) : Shape(list.data(), list.size()) {}
};
// Values in C order, little-endian; float16, bfloat16 and the float8 types are raw bits.
struct Tensor { std::string dtype; std::vector<int64_t> shape; std::vector<unsigned char> bytes; };
// What is known of a tensor beside its name and values; attrs is the text of a JSON object.
struct Fields {
  std::string_view role = "tap", slot = "0", op = {}, attrs = {}, dims = {};
  int64_t step = 0, rank = 0, world = 1;
};
namespace detail {
struct DType {
  const char *name, *code; size_t size; int mantissa = 0, exponent = 0;
  char special = 0;  // of raw bits; 'i': the top exponent is Inf and NaN, 'n': all ones are NaN, 'o': not compared here
};
inline constexpr DType dtypes[] = {
    {"float64", "<f8", 8}, {"float32", "<f4", 4}, {"float16", "<f2", 2, 10, 5, 'i'}, {"complex128", "<c16", 16, 0, 0, 'o'},
    {"complex64", "<c8", 8, 0, 0, 'o'}, {"bool", "|b1", 1}, {"int64", "<i8", 8}, {"int32", "<i4", 4}, {"int16", "<i2", 2},
    {"int8", "|i1", 1}, {"uint64", "<u8", 8}, {"uint32", "<u4", 4}, {"uint16", "<u2", 2}, {"uint8", "|u1", 1},
    {"bfloat16", "<u2", 2, 7, 8, 'i'}, {"float8_e4m3fn", "|u1", 1, 3, 4, 'n'}, {"float8_e5m2", "|u1", 1, 2, 5, 'i'},
    {"float8_e4m3", "|u1", 1, 3, 4, 'i'}, {"float8_e3m4", "|u1", 1, 4, 3, 'i'}, {"float8_e4m3fnuz", "|u1", 1, 0, 0, 'o'},
    {"float8_e5m2fnuz", "|u1", 1, 0, 0, 'o'}, {"float8_e4m3b11fnuz", "|u1", 1, 0, 0, 'o'}, {"float8_e8m0fnu", "|u1", 1, 0, 0, 'o'}};
inline const DType* find_dtype(std::string_view name) {
  const auto* found = std::find_if(std::begin(dtypes), std::end(dtypes), [&](auto& type) { return name == type.name || name == type.code + 1; });
  return found == std::end(dtypes) ? nullptr : found;
}
template <class T> constexpr const char* dtype_of() {
  constexpr int size = sizeof(T) == 8 ? 3 : sizeof(T) == 4 ? 2 : sizeof(T) == 2 ? 1 : 0;
  constexpr const char *ints[] = {"int8", "int16", "int32", "int64"}, *uints[] = {"uint8", "uint16", "uint32", "uint64"};
  if constexpr (std::is_floating_point_v<T>) return size == 3 ? "float64" : "float32";
  return std::is_same_v<T, bool> ? "bool" : std::is_signed_v<T> ? ints[size] : uints[size];
}
inline bool is_whole(const DType& type) { return !type.special && type.code[1] != 'f'; }
inline int64_t whole_at(const DType& type, const unsigned char* at) {  // the bits of an uint64 beyond 2^63
  int64_t value = type.code[1] == 'i' && at[type.size - 1] & 0x80 ? -1 : 0;
  std::memcpy(&value, at, type.size);
  return value;
}
inline double value_at(const DType& type, const unsigned char* at) {
  const int64_t bits = whole_at(type, at);
  float narrow; double wide;
  if (is_whole(type)) return type.code[1] == 'u' ? double(uint64_t(bits)) : double(bits);
  if (!type.special) return type.size == 4 ? (std::memcpy(&narrow, at, 4), narrow) : (std::memcpy(&wide, at, 8), wide);
  const int top = (1 << type.exponent) - 1, sign_bit = 1 << (type.mantissa + type.exponent), rest = int(bits) & (sign_bit - 1);
  const int exponent = rest >> type.mantissa, fraction = rest & ((1 << type.mantissa) - 1), normal = exponent ? 1 << type.mantissa : 0;
  const bool is_top = type.special == 'i' && exponent == top; const double size = std::ldexp(fraction + normal, std::max(exponent, 1) - top / 2 - type.mantissa);
  if ((is_top && fraction) || (type.special == 'n' && rest == sign_bit - 1)) return NAN;
  return (bits & sign_bit ? -1 : 1) * (is_top ? INFINITY : size);
}
inline int64_t elements(const Shape& shape) {  // -1 where a size is negative or the product too large
  int64_t count = 1;
  for (size_t axis = 0; axis < shape.rank; count *= shape.sizes[axis++])
    if (shape.sizes[axis] < 0 || (shape.sizes[axis] && count > (int64_t{1} << 56) / shape.sizes[axis])) return -1;
  return count;
}
inline std::string text_of(const Shape& shape) {
  std::string text; for (size_t axis = 0; axis < shape.rank; ++axis) text += (axis ? ", " : "") + std::to_string(shape.sizes[axis]);
  return text;
}
inline std::string npy_header(const DType& type, const Shape& shape) {
  const char* end = shape.rank == 1 ? ",), }" : "), }"; std::string text = std::string("{'descr': '") + type.code + "', 'fortran_order': False, 'shape': (" + text_of(shape) + end;
  if (shape.rank) text.append(21 - std::to_string(shape.sizes[0]).size(), ' ');
  text.append(64 - (10 + text.size() + 1) % 64, ' ') += '\n';
  return std::string("\x93NUMPY\x01\0", 8) + char(text.size() & 255) + char(text.size() >> 8) + text;
}
inline std::string quoted(std::string_view text) {  // UTF-8 as JSON
  std::string out = "\"";
  for (const unsigned char byte : text) {
    char escaped[8] = {char(byte)};
    if (byte < 0x20 || byte == '"' || byte == '\\') std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
    out += escaped;
  }
  return out + '"';
}
inline bool fits(std::string_view glob, std::string_view name) {  // `*`, `?`, `[a-z]`, `[!a-z]`
  if (glob.empty() || name.empty()) return name.empty() && glob.find_first_not_of('*') == glob.npos;
  if (glob[0] == '*') return fits(glob.substr(1), name) || fits(glob, name.substr(1));
  const size_t open = glob.substr(0, 2) == "[!" ? 2 : 1, close = glob[0] == '[' ? glob.find(']', open + 1) : glob.npos;
  if (close == glob.npos) return (glob[0] == '?' || glob[0] == name[0]) && fits(glob.substr(1), name.substr(1));
  bool inside = false;
  for (size_t at = open, last; at < close; at = last + 1) {
    last = at + 2 < close && glob[at + 1] == '-' ? at + 2 : at;
    inside |= glob[at] <= name[0] && name[0] <= glob[last];
  }
  return inside != (open == 2) && fits(glob.substr(close + 1), name.substr(1));
}
inline std::string environment(const char* name) { return std::getenv(name) ? std::getenv(name) : ""; }
inline std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::string content(file ? size_t(std::max<std::streamoff>(file.tellg(), 0)) : 0, '\0');
  return file && file.seekg(0).read(content.data(), std::streamsize(content.size())) ? std::optional(content) : std::nullopt;
}
// The members of a JSON object, texts decoded and the rest as it is spelled; none where the object is not whole.
inline std::optional<std::map<std::string, std::string>> json_members(std::string_view text) {
  std::map<std::string, std::string> found;
  std::string key, token; int depth = 0;
  const auto unit = [&](size_t from) { return std::strtoul(std::string(text.substr(std::min(from, text.size()), 4)).c_str(), nullptr, 16); };
  for (size_t at = 0; at < text.size(); ++at) {
    const char mark = text[at];
    depth += (mark == '{' || mark == '[') - (mark == '}' || mark == ']');
    if (depth == 1 && mark == ':') key = token, token.clear();
    else if ((depth == 1 && mark == ',') || depth == 0) found[key] = token, token.clear();
    else if (mark != '"') token += std::strchr(" \t\r\n{", mark) ? "" : std::string(1, mark);
    else for (++at; at < text.size() && text[at] != '"'; ++at) {
      const size_t escape = text[at] == '\\' && ++at < text.size() ? std::string_view("bfnrtu").find(text[at]) : 6;
      if (escape != 5) { if (at < text.size()) token += escape < 5 ? "\b\f\n\r\t"[escape] : text[at]; continue; }
      unsigned long code = unit(at + 1);
      at += 4;
      if (code >> 10 == 0x36) code = 0x10000 + ((code & 0x3ff) << 10) + (unit(at + 3) & 0x3ff), at += 6;
      const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      token += char(more ? (0xf0 << (3 - more) & 0xff) | code >> 6 * more : code);
      for (int part = more - 1; part >= 0; --part) token += char(0x80 | (code >> 6 * part & 0x3f));
    }
    if (depth == 0) return mark == '}' ? std::optional(found) : std::nullopt;
  }
  return std::nullopt;
}
}  // namespace detail
// Records what is tapped into a new folder: it is there when tap returns. Without a folder, a tap costs a branch.
class Recorder {
 public:
  // `folder` is by default what FIRSTDIFF_TRACE says; error() tells why it cannot be written.
  explicit Recorder(std::string folder = detail::environment("FIRSTDIFF_TRACE")) : folder_(std::move(folder)) {
    if (folder_.empty()) return;
    std::error_code ignored; std::filesystem::create_directories(folder_, ignored);
    header_ = std::fopen(path("trace.json").c_str(), "wbx");  // by us alone: a second writer is refused
    if (header_ && write_header("\"complete\": false")) lines_ = std::fopen(path("tensors.jsonl").c_str(), "wb");
    if (lines_ && !std::setvbuf(lines_, nullptr, _IONBF, 0)) return;  // nothing of a line that failed is written later
    fail(!header_ && errno == EEXIST ? folder_ + " holds a trace already; choose another folder, or delete it"
                                     : "cannot write a trace to " + folder_ + " (" + std::strerror(errno) + ")");
    if (header_) std::fclose(header_), std::remove(path("trace.json").c_str());
  }
  Recorder(const Recorder&) = delete;
  ~Recorder() { close(); }
  bool enabled() const { return lines_ != nullptr; }
  const std::string& error() const { return error_; }
  // Record `count` values under a name; false and error() where that cannot be.
  template <class T> bool tap(std::string_view name, const T* values, size_t count, const Shape& shape, const Fields& fields = {}) {
    return !lines_ || tap_bytes(name, detail::dtype_of<T>(), values, count * sizeof(T), shape, fields);
  }
  // The same for any type of the format, by name: `bfloat16` for raw bits.
  bool tap_bytes(std::string_view name, std::string_view dtype, const void* values, size_t size, const Shape& shape, const Fields& fields = {}) {
    if (!lines_) return true;
    const std::lock_guard<std::mutex> guard(mutex_);
    if (only_.find_first_not_of(" ,") != only_.npos && !wanted(only_, name)) return true;
    const std::string label(name);
    const detail::DType* type = detail::find_dtype(dtype);
    if (!type) return fail(label + " has the type " + std::string(dtype) + ", which a trace cannot hold; cast it");
    const int64_t count = detail::elements(shape);
    if (count < 0 || size_t(count) * type->size != size)
      return fail(label + " has " + std::to_string(size / type->size) + " elements, but its shape is [" + detail::text_of(shape) + "]");
    if (fields.slot.find_first_of("@:#") != fields.slot.npos) return fail(label + ": the slot has one of @ : # in it");
    if (!failure_.empty()) return fail("cannot write " + label + ": an earlier tensor could not be written");
    char file[32]; std::snprintf(file, sizeof file, "%06zu.npy", count_);
    const std::string header = detail::npy_header(*type, shape), line = line_of(name, file, *type, shape, fields);
    std::FILE* data = std::fopen(path(file).c_str(), "wb");
    bool written = data && !std::setvbuf(data, nullptr, _IONBF, 0) && put(header.data(), header.size(), data) && put(values, size, data);
    written = (!data || !std::fclose(data)) && written;
    if (written && put(line.data(), line.size(), lines_)) return ++count_, true;
    failure_ = "cannot write " + label + " to " + folder_ + " (" + std::strerror(errno) + ")";
    std::remove(path(file).c_str());  // a full disk gets room for trace.json to say so
    return fail(failure_);
  }
  // Mark the trace complete; after a failure, say in it why there is no more.
  bool close() {
    if (!lines_) return error_.empty();
    std::fclose(lines_), lines_ = nullptr;
    const std::string end = failure_.empty() ? "\"complete\": true" : "\"complete\": false, \"error\": " + detail::quoted(failure_);
    const bool written = write_header(end + ", \"tensors\": " + std::to_string(count_));
    return std::fclose(header_), written ? failure_.empty() : fail("cannot finish " + folder_ + " (" + std::strerror(errno) + ")");
  }
 private:
  static bool put(const void* from, size_t size, std::FILE* file) { return !size || std::fwrite(from, 1, size, file) == size; }
  bool fail(std::string sentence) { return error_ = std::move(sentence), false; }
  std::string path(const char* file) const { return folder_ + "/" + file; }
  bool wanted(std::string_view only, std::string_view name) const {
    const size_t end = std::min(only.find(','), only.size()), first = std::min(only.find_first_not_of(' '), end);
    const std::string_view glob = only.substr(first, only.substr(0, end).find_last_not_of(' ') + 1 - first);
    return detail::fits(glob, name) || (end < only.size() && wanted(only.substr(end + 1), name));
  }
  bool write_header(const std::string& end) {  // in place, and longer every time
    const std::string input = detail::environment("FIRSTDIFF_INPUT"), named = input.empty() ? "" : "\"input\": " + detail::quoted(input) + ", ";
    const std::string text = "{\"format\": \"firstdiff-trace\", \"version\": 1, \"producer\": {\"name\": \"firstdiff.hpp\"}, " + named + end + "}\n";
    std::rewind(header_);
    return put(text.data(), text.size(), header_) && !std::fflush(header_);
  }
  std::string line_of(std::string_view name, const char* file, const detail::DType& type, const Shape& shape, const Fields& fields) {
    const auto field = [](const char* key, const std::string& value) { return std::string(", \"") + key + "\": " + value; };
    const auto text = [&](const char* key, std::string_view value) { return value.empty() ? "" : field(key, detail::quoted(value)); };
    const auto number = [&](const char* key, int64_t value, int64_t usual) { return value == usual ? "" : field(key, std::to_string(value)); };
    return "{\"name\": " + detail::quoted(name) + text("role", fields.role) + text("slot", fields.slot == "0" ? "" : fields.slot) + number("step", fields.step, 0) +
           number("seq", int64_t(count_), -1) + text("op", fields.op) + (fields.attrs.empty() ? "" : field("attrs", std::string(fields.attrs))) +
           number("rank", fields.rank, 0) + number("world", fields.world, 1) + text("dims", fields.dims) + text("file", file) +
           text("dtype", type.name) + field("shape", "[" + detail::text_of(shape) + "]") + "}\n";
  }
  const std::string folder_, only_ = detail::environment("FIRSTDIFF_ONLY");
  std::string error_, failure_;
  std::FILE *lines_ = nullptr, *header_ = nullptr;
  size_t count_ = 0; std::mutex mutex_;
};
// One tensor of golden data: what identifies it, and the file that holds it.
struct Entry {
  std::string name, role = "output", slot = "0", dtype, path;
  int64_t call = 0, step = 0, rank = 0, seq = 0;
  std::string key() const {  // as in `layers.0.attn@1:in.0#s2`; a tap is an output
    const std::string kind = role == "input" ? "in" : role == "tap" || role == "output" ? "out" : role;
    const auto mark = [](const char* sign, int64_t number) { return number ? sign + std::to_string(number) : ""; };
    const std::string place = slot != "0" || kind == "in" ? kind + "." + slot : kind;
    return name + mark("@", call) + (place == "out" ? "" : ":" + place) + mark("#s", step) + mark("#r", rank);
  }
};
// The tensors of a trace folder, or of a folder of .npy files. A name is looked up here and never becomes a path.
class Golden {
 public:
  explicit Golden(const std::string& folder) : folder_(folder) {
    if (const auto lines = detail::read_file(folder + "/tensors.jsonl"); (is_trace = lines.has_value())) read_lines(*lines);
    std::error_code failed;
    for (std::filesystem::recursive_directory_iterator item(folder, failed), end; !is_trace && !failed && item != end; item.increment(failed)) {
      if (item->path().extension() != ".npy") continue;
      entries.emplace_back().path = item->path().string();
      entries.back().name = item->path().lexically_relative(folder).replace_extension().generic_string();
    }
    if (!is_trace) std::sort(entries.begin(), entries.end(), [](auto& one, auto& other) { return one.name < other.name; });
  }
  // Load a tensor by key; in a plain folder by path, dotted path, or stem if only one file has it.
  std::optional<Tensor> load(const std::string& name, std::string& error) const {
    std::vector<const Entry*> found;
    for (int rule = 0; rule < (is_trace ? 1 : 3) && found.empty(); ++rule) {
      for (const Entry& entry : entries) {
        std::string key = rule == 0 ? entry.key() : rule == 1 ? entry.name : entry.name.substr(entry.name.rfind('/') + 1);
        if (rule == 1) std::replace(key.begin(), key.end(), '/', '.');
        if (key == name) found.push_back(&entry);
      }
    }
    if (found.size() == 1) return load(*found[0], error);
    return error = folder_ + " has " + (found.empty() ? "no tensor " : "several tensors ") + name + " among its " + std::to_string(entries.size()), std::nullopt;
  }
  static std::optional<Tensor> load(const Entry& entry, std::string& error) {
    const auto refuse = [&](const std::string& why) { return error = entry.path + ": " + why, std::nullopt; };
    const auto file = detail::read_file(entry.path);
    if (!file) return refuse("the file cannot be read");
    const auto* raw = reinterpret_cast<const unsigned char*>(file->data());
    const size_t before = file->size() > 12 && !file->compare(0, 6, "\x93NUMPY") ? raw[6] == 1 ? 10 : 12 : file->size();
    const size_t start = before + (before < file->size() ? raw[8] + 256 * raw[9] : 0);
    const std::string head = start > file->size() ? "" : file->substr(before, start - before);
    const size_t descr = head.find("'descr': '") + 10, shape = head.find("'shape': (") + 10;
    if (descr < 10 || shape < 10) return refuse("this is no .npy file, or it is cut off");  // npos + 10 is 9
    const std::string code = head.substr(descr, head.find('\'', descr) - descr);
    const detail::DType *stored = detail::find_dtype(code.c_str() + !code.empty()), *type = entry.dtype.empty() ? stored : detail::find_dtype(entry.dtype);
    if (!stored || !type || std::strcmp(stored->code, type->code)) return refuse("the type " + code + " " + entry.dtype + " is not supported");
    Tensor tensor{type->name, {}, {}};
    for (size_t at = shape; (at = head.find_first_of("0123456789)", at)) < head.size() && head[at] != ')'; at = head.find_first_not_of("0123456789", at))
      tensor.shape.push_back(std::strtoll(&head[at], nullptr, 10));
    const int64_t count = detail::elements(tensor.shape);
    if (count < 0 || size_t(count) > (file->size() - start) / type->size)
      return refuse("the file is cut off: [" + detail::text_of(tensor.shape) + "] of " + type->name + " is more than it has");
    const bool swapped = code[0] == '>', fortran = head.find("'fortran_order': True") != head.npos, is_complex = code[1] == 'c';
    const size_t width = is_complex ? type->size / 2 : type->size;
    tensor.bytes.assign(raw + start, raw + start + size_t(count) * type->size);
    for (size_t to = 0; (swapped || fortran) && to < tensor.bytes.size(); ++to) {
      size_t from = 0, rest = to / type->size, stride = size_t(count), byte = to % type->size;
      for (size_t axis = tensor.shape.size(); fortran && axis-- > 0; rest /= size_t(tensor.shape[axis]))
        stride /= size_t(tensor.shape[axis]), from += rest % size_t(tensor.shape[axis]) * stride;
      if (swapped) byte = byte / width * width + width - 1 - byte % width;
      tensor.bytes[to] = raw[start + (fortran ? from : rest) * type->size + byte];
    }
    return tensor;
  }
  std::vector<Entry> entries; bool is_trace = false, complete = false;
 private:
  void read_lines(const std::string& text) {
    std::map<std::string, int64_t> seen; bool in_order = true;
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = std::min(text.find('\n', at), text.size());
      const auto line = detail::json_members(std::string_view(text).substr(at, end - at));
      if (!line || line->count("name") + line->count("file") < 2) continue;  // torn, or not ours
      in_order = in_order && line->count("seq");
      const auto member = [&](const char* field, const char* usual) { return line->count(field) ? line->at(field) : usual; };
      const auto number = [&](const char* field) { return std::strtoll(member(field, "0").c_str(), nullptr, 10); };
      Entry entry{member("name", ""), member("role", "output"), member("slot", "0"), member("dtype", ""), "", number("call"), number("step"), number("rank"), number("seq")};
      if (line->at("file").find_first_of("/\\") == std::string::npos) entry.path = folder_ + "/" + line->at("file");
      if (const int64_t again = seen[entry.key()]++; again && !entry.call) entry.call = again;  // writers need not count
      entries.push_back(entry);
    }
    if (in_order) std::stable_sort(entries.begin(), entries.end(), [](auto& one, auto& other) { return one.seq < other.seq; });
    const auto header = detail::json_members(detail::read_file(folder_ + "/trace.json").value_or(""));
    complete = header && header->count("complete") && header->at("complete").find("true") == 0;
  }
  std::string folder_;
};
enum class Status { pass, shape, value, error };
// What came of one check. `beyond`, `max` and `mean` are about finite elements; NaN and Inf on either side never pass.
struct Result {
  std::string name, text;  // one line, and the first differences below it if verbose
  Status status = Status::error;
  size_t elements = 0, beyond = 0, nan = 0, inf = 0; double max = 0, mean = 0;
};
// Checks tensors against golden data. Floats may differ by atol + rtol * |golden|; whole numbers and bool must be equal.
class Validator {
 public:
  explicit Validator(const std::string& folder, double atol = 1e-4, double rtol = 1e-3, bool verbose = false)
      : golden(folder), atol_(atol), rtol_(rtol), verbose_(verbose) {}
  template <class T> const Result& check(const std::string& name, const T* values, size_t count, const Shape& shape) {
    return check_bytes(name, detail::dtype_of<T>(), values, count * sizeof(T), shape);
  }
  const Result& check_bytes(const std::string& name, std::string_view dtype, const void* values, size_t size, const Shape& shape) {
    Result result{name, "", Status::error}; std::string error;
    const auto expected = golden.load(name, error);
    const detail::DType* type = detail::find_dtype(dtype);
    if (expected && (!type || detail::elements(shape) < 0 || size_t(detail::elements(shape)) * type->size != size))
      error = std::to_string(size) + " bytes of " + std::string(dtype) + " do not fit the shape [" + detail::text_of(shape) + "]";
    else if (expected && (type->special == 'o' || detail::find_dtype(expected->dtype)->special == 'o')) error = "its type cannot be compared here";
    if (error.empty()) compare(result, *type, static_cast<const unsigned char*>(values), shape, *expected);
    else result.text = "ERROR  " + name + ": " + error + tolerance(false);
    return results.emplace_back(std::move(result));
  }
  size_t count(Status status) const { return size_t(std::count_if(results.begin(), results.end(), [&](auto& one) { return one.status == status; })); }
  // False if any check did not pass, and if nothing was checked.
  bool all_passed() const { return !results.empty() && count(Status::pass) == results.size(); }
  std::string summary() const {
    const auto part = [&](Status status, const char* what) { return std::to_string(count(status)) + what; };
    if (results.empty()) return "nothing was validated, which is not a pass" + tolerance(false);
    return part(Status::pass, " passed, ") + part(Status::shape, " of another shape, ") + part(Status::value, " of other values, ") +
           part(Status::error, " with an error, of ") + std::to_string(results.size()) + tolerance(false);
  }
  // The first of these names that does not pass, by bisection; compute gives the Tensor of a name, without a dtype if it cannot.
  template <class Compute> std::optional<Result> find_divergence(const std::vector<std::string>& names, Compute compute) {
    const auto first = std::partition_point(names.begin(), names.end(), [&](const std::string& name) {
      const Tensor tensor = compute(name);
      return check_bytes(name, tensor.dtype, tensor.bytes.data(), tensor.bytes.size(), tensor.shape).status == Status::pass;
    });
    for (auto result = results.rbegin(); first != names.end() && result != results.rend(); ++result)
      if (result->name == *first) return *result;
    return std::nullopt;
  }
  Golden golden; std::vector<Result> results;
 private:
  std::string tolerance(bool exact) const {
    char text[64]; std::snprintf(text, sizeof text, " (atol %g, rtol %g)", atol_, rtol_);
    return exact ? " (exact)" : text;
  }
  void compare(Result& result, const detail::DType& type, const unsigned char* values, const Shape& shape, const Tensor& expected) const {
    const detail::DType& golden_type = *detail::find_dtype(expected.dtype);
    const bool exact = detail::is_whole(type) && detail::is_whole(golden_type), is_unsigned = type.code[1] == 'u';
    const std::string sizes = detail::text_of(shape), golden_sizes = detail::text_of(expected.shape);
    result.status = Status::shape;
    result.text = "SHAPE  " + result.name + " is [" + sizes + "], golden is [" + golden_sizes + "]" + tolerance(exact);
    if (sizes != golden_sizes) return;
    result.elements = size_t(detail::elements(shape)); std::string listed;
    for (size_t index = 0, shown = 0; index < result.elements; ++index) {
      const unsigned char *ours = values + index * type.size, *theirs = expected.bytes.data() + index * golden_type.size;
      const double value = detail::value_at(type, ours), other = detail::value_at(golden_type, theirs);
      double difference = std::fabs(value - other);
      if (exact && is_unsigned == (golden_type.code[1] == 'u')) {  // 64 bits are more than a double holds
        const uint64_t a = uint64_t(detail::whole_at(type, ours)), b = uint64_t(detail::whole_at(golden_type, theirs));
        difference = double((is_unsigned ? a < b : int64_t(a) < int64_t(b)) ? b - a : a - b);
      }
      const bool is_nan = std::isnan(value) || std::isnan(other), is_finite = std::isfinite(value) && std::isfinite(other);
      const bool beyond = is_finite && difference > (exact ? 0 : atol_ + rtol_ * std::fabs(other));
      result.nan += is_nan, result.inf += !is_nan && !is_finite, result.beyond += beyond;
      if (is_finite) result.max = std::max(result.max, difference), result.mean += difference;
      if (!verbose_ || (is_finite && !beyond) || shown++ >= 10) continue;
      std::vector<int64_t> place(shape.rank);
      for (size_t axis = shape.rank, rest = index; axis-- > 0; rest /= size_t(shape.sizes[axis])) place[axis] = int64_t(rest) % shape.sizes[axis];
      listed += "\n       [" + detail::text_of(place) + "] " + std::to_string(value) + ", golden " + std::to_string(other);
    }
    result.mean /= double(std::max<size_t>(result.elements - result.nan - result.inf, 1));
    result.status = result.beyond || result.nan || result.inf ? Status::value : Status::pass;
    char figures[160];
    std::snprintf(figures, sizeof figures, "] max %.3g mean %.3g, %zu of %zu beyond, %zu NaN, %zu Inf", result.max, result.mean, result.beyond, result.elements, result.nan, result.inf);
    result.text = (result.status == Status::pass ? "pass   " : "VALUE  ") + result.name + " [" + sizes + figures + tolerance(exact) + listed;
  }
  double atol_, rtol_; bool verbose_;
};
}  // namespace firstdiff
