package org.apache.spark.sql.dagopt

import java.io.{BufferedInputStream, BufferedOutputStream, DataInputStream, DataOutputStream, InputStream, OutputStream}
import java.nio.ByteBuffer

import scala.reflect.ClassTag

import org.apache.spark.serializer.{DeserializationStream, SerializationStream, Serializer, SerializerInstance}

/**
 * For the rows of Python's RDDs, which are byte arrays in the JVM: each is written as it is, behind
 * its length. Others, such as the lines of a text file, are written as Spark's serializer does. Keys
 * are not written at all: there is one for all rows.
 */
private[dagopt] final class ElementSerializer(others: Serializer) extends Serializer with Serializable {
  override def newInstance(): SerializerInstance = new ElementSerializerInstance(others.newInstance())

  /** Elements stand side by side, and may be put in any order. */
  override private[spark] def supportsRelocationOfSerializedObjects: Boolean = true
}

private final class ElementSerializerInstance(others: SerializerInstance) extends SerializerInstance {
  override def serializeStream(to: OutputStream): SerializationStream = new SerializationStream {
    private val out = new DataOutputStream(new BufferedOutputStream(to))

    override def writeKey[T: ClassTag](key: T): SerializationStream = this

    override def writeValue[T: ClassTag](value: T): SerializationStream = {
      value match {
        case bytes: Array[Byte] =>
          out.writeInt(bytes.length)
          out.write(bytes)
        case other =>
          val bytes = others.serialize[Any](other)
          out.writeInt(-bytes.remaining - 1)
          out.write(bytes.array, bytes.arrayOffset + bytes.position(), bytes.remaining())
      }
      this
    }

    override def writeObject[T: ClassTag](t: T): SerializationStream = throw new UnsupportedOperationException
    override def flush(): Unit = out.flush()
    override def close(): Unit = out.close()
  }

  override def deserializeStream(from: InputStream): DeserializationStream = new DeserializationStream {
    private val in = new DataInputStream(new BufferedInputStream(from))

    override def asKeyValueIterator: Iterator[(Any, Any)] = new Iterator[(Any, Any)] {
      private var ahead = readLength()

      override def hasNext: Boolean = ahead.isDefined

      override def next(): (Any, Any) = {
        val size = ahead.get
        val bytes = new Array[Byte](if (size >= 0) size else -size - 1)
        in.readFully(bytes)
        ahead = readLength()
        (0, if (size >= 0) bytes else others.deserialize[Any](ByteBuffer.wrap(bytes)))
      }
    }

    private def readLength(): Option[Int] = {
      val first = in.read()
      if (first < 0) { in.close(); None }
      else Some((first << 24) | (in.readUnsignedByte() << 16) | in.readUnsignedShort())
    }

    override def asIterator: Iterator[Any] = throw new UnsupportedOperationException
    override def readKey[T: ClassTag](): T = throw new UnsupportedOperationException
    override def readValue[T: ClassTag](): T = throw new UnsupportedOperationException
    override def readObject[T: ClassTag](): T = throw new UnsupportedOperationException
    override def close(): Unit = in.close()
  }

  override def serialize[T: ClassTag](t: T): ByteBuffer = throw new UnsupportedOperationException
  override def deserialize[T: ClassTag](bytes: ByteBuffer): T = throw new UnsupportedOperationException
  override def deserialize[T: ClassTag](bytes: ByteBuffer, loader: ClassLoader): T =
    throw new UnsupportedOperationException
}
