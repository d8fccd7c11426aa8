/** Models of one node as ONNX's protobuf bytes: the part of onnx.proto that they need. */

import protobuf from "protobufjs";

const SCHEMA = protobuf.parse(`
  syntax = "proto3";
  message ModelProto {
    int64 ir_version = 1;
    repeated OperatorSetIdProto opset_import = 8;
    GraphProto graph = 7;
  }
  message OperatorSetIdProto { string domain = 1; int64 version = 2; }
  message GraphProto {
    repeated NodeProto node = 1;
    string name = 2;
    repeated ValueInfoProto input = 11;
    repeated ValueInfoProto output = 12;
  }
  message NodeProto {
    repeated string input = 1;
    repeated string output = 2;
    string op_type = 4;
    string domain = 7;
    repeated AttributeProto attribute = 5;
  }
  message AttributeProto { string name = 1; int32 type = 20; optional float f = 2; optional int64 i = 3; }
  message ValueInfoProto { string name = 1; TypeProto type = 2; }
  message TypeProto { TensorTypeProto tensor_type = 1; }
  message TensorTypeProto { int32 elem_type = 1; TensorShapeProto shape = 2; }
  message TensorShapeProto { repeated DimensionProto dim = 1; }
  message DimensionProto { string dim_param = 2; }
`, { keepCase: true }).root.lookupType("ModelProto");

/** The numbers of TensorProto.DataType. */
export const TYPES = { float32: 1, int32: 6, bool: 9, float16: 10, float64: 11 };
const FLOAT = 1, INT = 2; // of AttributeProto.AttributeType

/**
 * The bytes of a model that is one node. Sizes are symbolic, so that one model serves every shape.
 *
 * inputs: [name, type, rank] of each, null for an optional one that is left out.  outputs: likewise.
 * attributes: {name: {i: …} or {f: …}}.
 */
export function modelOf({ operator, domain = "", opset, inputs, outputs, attributes }) {
  const node = {
    op_type: operator, domain, input: names(inputs), output: names(outputs),
    attribute: Object.entries(attributes).map(([name, value]) => ({ name, type: "f" in value ? FLOAT : INT, ...value })),
  };
  return SCHEMA.encode(SCHEMA.create({
    ir_version: 10,
    opset_import: [{ domain: "", version: opset }, { domain: "com.microsoft", version: 1 }],
    graph: { name: operator, node: [node], input: infos(inputs), output: infos(outputs) },
  })).finish();
}

const names = (values) => values.map((value) => (value ? value[0] : ""));
const infos = (values) => values.filter(Boolean).map(([name, type, rank]) => ({
  name, type: { tensor_type: { elem_type: TYPES[type], shape: { dim: axes(name, rank) } } },
}));
const axes = (name, rank) => Array.from({ length: rank }, (_, axis) => ({ dim_param: `${name}${axis}` }));
